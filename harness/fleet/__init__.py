"""`tfbench fleet`: run the same plan on every node of a Ray cluster.

cluster.py is the only module that uses Ray. node_worker.py runs on the nodes, session.py on the driver;
fleet_folder.py stores the results in a fleet folder on the driver.
"""

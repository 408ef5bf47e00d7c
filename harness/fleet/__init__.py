"""`tfbench fleet`: run the same plan on every node of a Ray cluster, or train over several nodes.

cluster.py is the only module that uses Ray. node_worker.py and training_worker.py run on the nodes, session.py and
multi_node_training.py on the driver; folder.py stores the results in a fleet folder on the driver.
"""

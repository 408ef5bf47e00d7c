"""`tfbench fleet`: the same plan on every node of a Ray cluster, and training over several of them together.

cluster.py is the only module that speaks to Ray, worker.py and training_worker.py run on the nodes, session.py and
multiworker.py drive them, folder.py keeps everything in one fleet folder on the driver.
"""

"""`tfbench fleet`: the same plan on every node of a Ray cluster, and training over several of them together.

dispatch.py decides (pure of Ray), backend.py is the only module that speaks to Ray, worker.py and node_facts.py
run on the nodes, folder.py keeps everything in one fleet folder on the driver.
"""

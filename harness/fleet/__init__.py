"""`tfbench fleet`: the same plan on every node of a Ray cluster, and training over several of them together.

driver.py decides (pure of Ray), backend.py is the only module that speaks to Ray, worker.py and probe.py run on
the nodes, store.py keeps everything in one fleet folder on the driver.
"""

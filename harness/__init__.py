"""The host side of tfbench: plan, build, run, sample, store, analyse. Never imports TensorFlow."""

__version__ = "0.1.0"

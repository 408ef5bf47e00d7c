"""Parts that workloads share: augmentation, pipelines of JPEG files, loss scaling."""

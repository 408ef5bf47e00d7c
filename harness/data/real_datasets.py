"""The table of published datasets: their files, checksums, and what reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.data import pets
from harness.data.archives import Archive
from harness.data.published_data import (
    Arrays,
    Published,
    arrays,
    read_cifar,
    read_idx_files,
    read_reviews,
)


def _cifar10(files: Sequence[Path]) -> Arrays:
    folder = "cifar-10-batches-py"
    train = [f"{folder}/data_batch_{number}" for number in range(1, 6)]
    return read_cifar(files, train, [f"{folder}/test_batch"], b"labels")


def _cifar100(files: Sequence[Path]) -> Arrays:
    folder = "cifar-100-python"
    return read_cifar(files, [f"{folder}/train"], [f"{folder}/test"], b"fine_labels")


def _imdb(files: Sequence[Path]) -> Arrays:
    return read_reviews(files, _LONGEST_REVIEW, _REVIEW_WORDS)


# Nine reviews of ten are shorter.
_LONGEST_REVIEW, _REVIEW_WORDS = 500, 20_000
_KERAS = "https://storage.googleapis.com/tensorflow/tf-keras-datasets"
_CIFAR = "https://www.cs.toronto.edu/~kriz"
_FASHION = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"

_PETS = "https://download.microsoft.com/download/3/E/1/3E1C3F21-ECDB-4869-8368-6DEBA77B919F"

# CIFAR: A. Krizhevsky, "Learning Multiple Layers of Features from Tiny Images" (2009); the sha256 are those
# that Keras checks. Fashion-MNIST: H. Xiao et al. (2017), MD5 as its repository prints them. Cats and dogs:
# see cats_dogs.py; the sha256 is what several public projects check, its shape that of the mean picture.
# Reviews: A. Maas et al., "Learning Word Vectors for Sentiment Analysis" (2011), as Keras' imdb.npz.
REAL_DATASETS: Mapping[str, Published] = {
    "cifar10": Published(
        archives=(
            Archive(
                file="cifar-10-python.tar.gz",
                url=f"{_CIFAR}/cifar-10-python.tar.gz",
                checksum="sha256:6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            ),
        ),
        unpack=arrays(_cifar10),
        shape=(32, 32, 3),
        classes=10,
        train=50_000,
        test=10_000,
    ),
    "cifar100": Published(
        archives=(
            Archive(
                file="cifar-100-python.tar.gz",
                url=f"{_CIFAR}/cifar-100-python.tar.gz",
                checksum="sha256:85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
            ),
        ),
        unpack=arrays(_cifar100),
        shape=(32, 32, 3),
        classes=100,
        train=50_000,
        test=10_000,
    ),
    "fashion-mnist": Published(
        archives=tuple(
            Archive(file=f"fashion-mnist-{name}.gz", url=f"{_FASHION}/{name}.gz", checksum=f"md5:{md5}")
            for name, md5 in (
                ("train-images-idx3-ubyte", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
                ("train-labels-idx1-ubyte", "25c81989df183df01b3e8a0aad5dffbe"),
                ("t10k-images-idx3-ubyte", "bef4ecab320f06d8554ea6380940ec79"),
                ("t10k-labels-idx1-ubyte", "bb300cfdad3c16e7a12a480ee83cd310"),
            )
        ),
        unpack=arrays(read_idx_files),
        shape=(28, 28),
        classes=10,
        train=60_000,
        test=10_000,
    ),
    "cats-and-dogs": Published(
        archives=(
            Archive(
                file="kagglecatsanddogs_5340.zip",
                url=f"{_PETS}/kagglecatsanddogs_5340.zip",
                checksum="sha256:b7974bd00a84a99921f36ee4403f089853777b5ae8d151c76a86e64900334af9",
            ),
        ),
        unpack=pets.unpack_pets,
        shape=(360, 404, 3),
        classes=2,
        train=25_000,
        test=0,
        kind="jpeg",
        class_names=pets.CLASSES,
        together=True,
    ),
    "imdb": Published(
        archives=(
            Archive(
                file="imdb.npz",
                url=f"{_KERAS}/imdb.npz",
                checksum="sha256:69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f",
            ),
        ),
        unpack=arrays(_imdb),
        shape=(_LONGEST_REVIEW,),
        classes=2,
        train=25_000,
        test=25_000,
        dtype="uint16",
        vocabulary=_REVIEW_WORDS,
    ),
}

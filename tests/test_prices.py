import pytest

from harness.errors import UsageError
from harness.model.run import Prices
from harness.run.resolve import read_prices


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("0.526", Prices(machine=0.526)),
        ("cpu=0.2,gpu=0.526", Prices(cpu=0.2, gpu=0.526)),
        (
            "each-gpu=3, electricity=0.3, currency=EUR",
            Prices(each_gpu=3.0, electricity_per_kwh=0.3, currency="EUR"),
        ),
    ],
)
def test_amounts(text: str, wanted: Prices) -> None:
    assert read_prices(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "0,526",
        "cpu=1,cpu=2",
        "currency=EUR",
        "cheap",
        "gpu=-1",
        "gpu=nan",
        "tpu=1",
        "currency=",
        "prices.toml",
    ],
)
def test_mistakes_name_what_to_try(text: str) -> None:
    with pytest.raises(UsageError) as error:
        read_prices(text)
    assert error.value.hint

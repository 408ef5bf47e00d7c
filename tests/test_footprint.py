import json

from harness.cli.list import FOOTPRINTS
from harness.run.catalogue import built_in


def test_the_table_has_only_existing_workloads() -> None:
    assert set(json.loads(FOOTPRINTS.read_text())) <= {entry.workload.name for entry in built_in()}

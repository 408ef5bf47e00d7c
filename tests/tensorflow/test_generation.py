"""Generation: tokens are those of the plain forward pass; what does not fit ends in a message that says what does."""

import pytest

from harness.run.catalogue import built_in
from harness.run.scripts import script_text
from tests.tensorflow.test_gpt2 import ENTRY as TRAINING
from tests.tensorflow.test_gpt2 import TAKE
from workloads.protocol import FIRST_TOKEN, FLOPS, PER_TOKEN, SEQUENCE_BYTES, STEP_BYTES
from workloads.variants import BASELINE, TUNED

pytestmark = pytest.mark.tensorflow

ENTRY = next(each for each in built_in() if each.workload.name == "gpt2-generate")
PROMPT, NEW, VOCABULARY = 12, 6, 300
SMALL = {"SIZE": "tiny", "BATCH_SIZE": 3, "PROMPT": PROMPT, "NEW_TOKENS": NEW, "VOCABULARY": VOCABULARY}

# The network of the training workload without a cache makes one token after another.
COMPARE = """
whole = taken(*PLAIN)
random = np.random.default_rng(3)
# Large enough for products to decide which token is next, not biases, which are the same for all.
scale = {1: 0.02, 2: 0.25, 3: 0.25}
weights = [scale[len(each.shape)] * random.standard_normal(each.shape).astype("float32") + (each.path.endswith("gamma"))
           for each in whole.weights]
whole.set_weights(weights)
table, positions, *rest = weights
of_blocks = [rest[start : start + 16] for start in range(0, len(rest) - 2, 16)]
flat, width = [], table.shape[1]
def kernel(each): return each.reshape(width, -1) if each.shape[0] == width else each.reshape(-1, width)
own, stored = [], []
for first, shift, q, qb, k, kb, v, vb, o, ob, second, moved, wide, wb, narrow, nb in of_blocks:
    own += [first, shift, second, moved]
    for each, bias in ((q, qb), (k, kb), (v, vb)):
        own += [kernel(each), bias.ravel()]
    own += [o.reshape(width, width), ob, wide, wb, narrow, nb]
    joined = np.concatenate([kernel(each) for each in (q, k, v)], 1).T
    stored += [first, shift, second, moved, joined, np.concatenate([each.ravel() for each in (qb, kb, vb)]),
               o.reshape(width, width).T, ob, wide.T, wb, narrow.T, nb]
longest = published.positions.get_weights()[0].shape[0]
padded = np.zeros((longest, width), "float32")
padded[: len(positions)] = positions
published.set_weights([table, padded, *own, *rest[-2:]])
rows = tuned.tokens.get_weights()[0].shape[0]
wide_table = np.zeros((rows, width), "float32")
wide_table[: len(table)] = table
tuned.set_weights([wide_table, padded, *stored, *rest[-2:]])
prompts = np.random.default_rng(4).integers(0, len(table), (3, PROMPT)).astype("int32")
sequence = np.concatenate([prompts, np.zeros((3, NEW), "int32")], 1)
for place in range(PROMPT, PROMPT + NEW):
    sequence[:, place] = np.asarray(whole(sequence))[:, place - 1].argmax(-1)
found = [sequence[:, PROMPT:].tolist(), *(model.predict_on_batch(prompts).tolist() for model in (published, tuned))]
tuned.new_tokens, tuned.predict_function = 1, None
found.append(tuned.predict_on_batch(prompts).tolist())
print()
print(json.dumps(found))
"""


def texts(**changed):
    what = []
    for variant in (BASELINE, TUNED):
        file, text = script_text(ENTRY.workload, variant, "cpu", {**SMALL, **changed})
        what.append((str(ENTRY.path.parent / file), text))
    return what


def take(**changed):
    code = TAKE.replace("WHAT", repr(texts(**changed))).replace(
        "predicts=False", "predicts='generate' in path"
    )
    sizes = {
        "LAYERS": 2,
        "WIDTH": 64,
        "HEADS": 2,
        "SEQUENCE": PROMPT + NEW,
        "VOCABULARY": VOCABULARY,
        "BATCH_SIZE": 1,
    }
    file, text = script_text(TRAINING.workload, BASELINE, "cpu", sizes)
    constants = f"PLAIN, PROMPT, NEW = {(str(TRAINING.path.parent / file), text)!r}, {PROMPT}, {NEW}\n"
    return code + constants + COMPARE


@pytest.mark.parametrize("changed", [{}, {"SUMS": 8, "JIT_COMPILE": False}])
def test_tokens_are_those_of_the_plain_forward_pass(execute, changed):
    plain, *generated = execute(take(**changed))
    assert len({token for row in plain for token in row}) > NEW, (
        "a sequence that repeats a token shows little"
    )
    assert generated == [plain, plain, [row[:1] for row in plain]]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"PROMPT": 1000, "NEW_TOKENS": 100}, "At most 24 new tokens fit."),
        ({"PROMPT": 1024, "NEW_TOKENS": 1}, "A prompt has at most 1,023."),
        ({"SIZE": "1.5B", "BATCH_SIZE": 10_000_000}, "fits."),
    ],
)
def test_what_does_not_fit_says_what_does(drive, changed, message):
    done = drive(texts(**changed)[0][1], code=1, requests={"batch_sizes": [1]})
    (error,) = done.of("error")
    assert message in error["message"]


def test_requests_of_tokens_are_timed_by_batch_size(drive):
    done = drive(
        texts(BATCH_SIZE=1, JIT_COMPILE=False)[1][1],
        requests={"batch_sizes": [1, 2]},
        variants=[BASELINE, "model-only", "batch:2"],
        steps=0,
        windows=1,
        window_s=0.05,
        warmup_s=0.01,
    )
    found = {(each["scenario"], each["batch_size"]) for each in done.of("requests")}
    assert found == {(scenario, size) for scenario in (FIRST_TOKEN, PER_TOKEN) for size in (1, 2)}
    assert all(each["samples"] == NEW * each["steps"] for each in done.of("window"))
    assert done.metric(BASELINE, STEP_BYTES) > done.metric(BASELINE, SEQUENCE_BYTES) > 0
    assert done.metric(BASELINE, FLOPS) > done.metric(BASELINE, STEP_BYTES) / 2
    assert [each["variant"] for each in done.of("needless")] == ["batch:2"]


def test_gpus_precisions_run(drive):
    text = texts(PRECISION="bfloat16", WEIGHTS="int8", SUMS=8, JIT_COMPILE=False)[1][1]
    done = drive(text, requests={"batch_sizes": [1]}, steps=1, windows=1)
    (variant,) = done.of("variant")
    assert variant["params"]["precision"] == "bfloat16"

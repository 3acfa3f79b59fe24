"""numpy reads what the test wrote, by types, shapes and values."""

import sys

import numpy as np

want = {
    "flags": np.array([True, False, True]),
    "long": np.arange(-50_000, 50_000, dtype=np.int32),
    "wide": np.array([-(2**63), 0, 2**63 - 1], dtype=np.int64),
    "real": np.array([-0.1, 0, 5e-324, -np.inf]),
    "empty": np.array([], dtype=np.float64),
    "words": np.array(["", "agent", "日本😀", "b\ufffdd"], dtype="<U5"),
    "no_words": np.array([], dtype="<U1"),
}
with np.load(sys.argv[1], allow_pickle=False) as got:
    assert got.files == list(want), got.files
    for name, values in want.items():
        assert got[name].dtype == values.dtype, (name, got[name].dtype)
        np.testing.assert_array_equal(got[name], values, err_msg=name, strict=True)
print("all checks held")

"""Any Python with h5py reads a weight in five lines: read_example.py WRITE_EXAMPLE_COMMAND..."""
import os
import subprocess
import sys
import tempfile

try:
    import h5py
except ImportError:
    print("skipped: this Python has no h5py")
    sys.exit(77)

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "step_00000100.h5")
    subprocess.run(sys.argv[1:] + [path], check=True)

    import numpy
    with h5py.File(path) as file:
        weight = file["param/f32"][1]
        step = int(file.attrs["step"])
        stored = {name: data[...] for name, data in file["param"].items()}
        names = file["param/f32"].attrs["hf_names"]
        complete = file.attrs["complete"]

expected = numpy.array([numpy.ldexp(i - 7.5, i % 5 - 2) for i in range(24)]).reshape(2, 3, 4)
assert weight.shape == (3, 4) and (weight == expected[1]).all(), weight
assert step == 100 and complete == 1, (step, complete)
assert bytes(names).decode().split("\n") == ["h.0.w", "h.1.w"], names
for name, values in stored.items():
    assert numpy.issubdtype(values.dtype, numpy.floating), (name, values.dtype)
    assert (values.astype(float) == expected).all(), (name, values)
print("read", ", ".join(f"{name} as {values.dtype}" for name, values in stored.items()))

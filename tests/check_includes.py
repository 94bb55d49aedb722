#!/usr/bin/env python3
"""Checks the direction of dependencies: who may include whom, which files may see which library, how headers begin.

Usage: check_includes.py SOURCE_DIR     prints every violation as file:line: message, exit 1 if there is any
"""
import re
import sys
from pathlib import Path

# Line of a module in the dependency order; a file may include its own module and lower lines only.
LINES = [["base"], ["deck"], ["device"], ["comm"], ["model"], ["io", "data"], ["train", "infer"], ["main", "tools"]]
LINE_OF = {module: line for line, modules in enumerate(LINES) for module in modules}

# Library headers and the only files that may include them.
LIBRARIES = [
    ("MPI", r"mpi\.h", r"src/comm/mpi[^/]*\.(cpp|h)|src/io/h5[^/]*\.(cpp|h)"),
    ("HDF5", r"hdf5\.h|H5.*\.h", r"src/io/h5[^/]*\.(cpp|h)"),
    ("CUDA", r"(cuda|cublas|cudnn|cub/|cuda/|nvtx|nvToolsExt|thrust/).*", r"src/device/cuda/.*|src/comm/nccl/.*"),
    ("NCCL", r"nccl.*", r"src/comm/nccl/.*"),
    ("TOML", r"toml\+\+/.*", r"src/deck/.*\.cpp"),
    ("OpenBLAS", r"cblas\.h|openblas.*", r"src/device/cpu/.*"),
    ("PCRE2", r"pcre2.*", r"src/data/tokenizer/pattern\.cpp"),
    ("utf8proc", r"utf8proc\.h", r"src/data/tokenizer/steps\.cpp"),
    ("SentencePiece", r"sentencepiece.*", r"src/data/tokenizer/sentence_piece\.cpp"),
    ("zlib and zstd", r"zlib\.h|zstd\.h", r"src/data/text_stream\.cpp"),
    ("Boost", r"boost/.*", r"src/main\.cpp|tools/.*"),
]

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = {".h", ".cuh", ".cpp", ".cu"}


def module_of(path):
    """The module of a path below the source folder, or None where the order does not apply (tests)."""
    parts = path.parts
    if parts[:2] == ("include", "trireme"):
        return parts[2] if len(parts) > 3 else None
    if parts[0] == "src":
        return parts[1] if len(parts) > 2 else "main"
    return "tools" if parts[0] == "tools" else None


def target_of(path, root, name):
    """The module that an include in quotes leads to: by its name, or through the file it names next to `path`."""
    if name.startswith("trireme/"):
        return module_of(Path("include") / name)
    beside = (root / path).parent / name
    try:
        return module_of(beside.resolve().relative_to(root)) if beside.exists() else None
    except ValueError:
        return None


def arrow_problem(module, target):
    if module is None or target is None or module == target:
        return None
    if target not in LINE_OF or module not in LINE_OF:
        return f"module {target if target not in LINE_OF else module} has no line in the order of modules"
    if LINE_OF[target] > LINE_OF[module]:
        return f"{module} includes {target}, which stands above it"
    if LINE_OF[target] == LINE_OF[module]:
        return f"{module} includes {target}: neighbours do not know each other"
    return None


def library_problem(path, name):
    for library, header, allowed in LIBRARIES:
        if re.fullmatch(header, name) and not re.fullmatch(allowed, path.as_posix()):
            return f"{name}: {library} headers belong to {allowed}"
    return None


def header_problem(path, lines):
    if path.parts[0] != "include":
        return None
    if not lines or lines[0].strip() != "#pragma once":
        return "a header begins with #pragma once"
    if len(lines) < 2 or not lines[1].startswith("// "):
        return "a header says in a comment on line 2 what it is and what it does not do"
    return None


def check_file(root, path):
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    head = header_problem(path, lines)
    problems = [(1, head)] if head else []
    for number, line in enumerate(lines, 1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        quote, name = match.groups()
        own = quote == '"' and ((root / path).parent / name).exists()  # "cuda_workspace.h" beside it is no header of CUDA
        found = [library_problem(path, name)] if module_of(path) and not own else []
        if quote == '"':
            found.append(arrow_problem(module_of(path), target_of(path, root, name)))
        problems += [(number, text) for text in found if text]
    return [f"{path}:{number}: {text}" for number, text in problems]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = Path(sys.argv[1]).resolve()
    files = [f.relative_to(root) for top in ("include", "src", "tools") for f in sorted((root / top).rglob("*"))]
    files = [f for f in files if f.suffix in SUFFIXES]
    problems = [problem for f in files for problem in check_file(root, f)]
    print("\n".join(problems) if problems else f"{len(files)} files, all includes in order")
    sys.exit(1 if problems or not files else 0)


if __name__ == "__main__":
    main()

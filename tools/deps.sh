#!/usr/bin/env bash
# deps.sh [check]   Installs the Debian packages that are missing and, for a CUDA build, the headers of cudnn-frontend.
# Where it may not install, it says what is missing and lets CMake decide. Reads BUILD_DIR and CUDA (AUTO, ON, OFF).
# "check" adds what only the code checks need.
set -euo pipefail
build_dir=${BUILD_DIR:-build} cuda=${CUDA:-AUTO}

packages=(g++ cmake ninja-build make pkg-config git
  libopenmpi-dev openmpi-bin libhdf5-openmpi-dev hdf5-tools
  libboost-program-options-dev libtomlplusplus-dev nlohmann-json3-dev libpcre2-dev libutf8proc-dev
  libsentencepiece-dev zlib1g-dev libzstd-dev libopenblas-openmp-dev catch2
  python3 python3-h5py python3-numpy)
if [[ ${1:-} == check ]]; then packages+=(clang-format slurm-wlm slurm-wlm-basic-plugins munge); fi

wants_cuda() { [[ $cuda == ON ]] || { [[ $cuda == AUTO ]] && command -v nvcc > /dev/null; }; }

frontend_found() {
  local folder
  for folder in "$build_dir/third_party/cudnn_frontend/include" /usr/include /usr/local/include /usr/local/cuda/include \
    ${CPATH:+${CPATH//:/ }}; do
    [[ -e $folder/cudnn_frontend.h ]] && return 0
  done
  return 1
}

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null | grep -qx installed || echo "$package"
  done
}

explain_elsewhere() {
  cat << 'TEXT'
deps: no apt-get here, nothing was installed. What Trireme needs, unless modules provide it:
  Spack:  spack install cmake ninja openmpi hdf5+mpi boost+program_options tomlplusplus nlohmann-json pcre2+jit utf8proc sentencepiece \
            zlib zstd openblas threads=openmp catch2 py-h5py
  conda:  conda install -c conda-forge cxx-compiler cmake ninja pkg-config openmpi "hdf5=*=mpi_openmpi*" libboost-devel \
            tomlplusplus nlohmann_json pcre2 libutf8proc sentencepiece zlib zstd "openblas=*=openmp*" catch2 h5py
  CUDA (optional): nvcc 12.4 or later, cuBLAS, NCCL; cuDNN 9 with cudnn-frontend for the faster attention
TEXT
}

install() {
  local sudo=() missing=("$@")
  if ((EUID != 0)); then
    if ! command -v sudo > /dev/null; then
      echo "deps: missing and not installable without root: ${missing[*]}"
      echo "deps: ask for: apt-get install ${missing[*]}; the build goes on with what is there"
      return
    fi
    sudo=(sudo)
  fi
  echo "deps: installing ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
}

# Headers only; without them the build goes on with our own attention kernels.
fetch_frontend() {
  local target=$build_dir/third_party/cudnn_frontend
  echo "deps: fetching the headers of cudnn-frontend into $target"
  if ! python3 -m pip --version > /dev/null 2>&1 ||
    ! python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps --upgrade --target "$target" \
      'nvidia-cudnn-frontend>=1.9'; then
    echo "deps: no cudnn-frontend (PyPI nvidia-cudnn-frontend): attention will not use cuDNN. If it is installed elsewhere:"
    echo "deps: CMAKE_ARGS=-DTRIREME_CUDNN_FRONTEND=<folder that holds cudnn_frontend.h>"
  fi
}

if ! command -v apt-get > /dev/null; then
  explain_elsewhere
else
  if wants_cuda && ! frontend_found && ! python3 -m pip --version > /dev/null 2>&1; then packages+=(python3-pip); fi
  mapfile -t missing < <(missing_packages "${packages[@]}")
  if ((${#missing[@]} > 0)); then install "${missing[@]}"; fi
fi
if wants_cuda && ! frontend_found; then fetch_frontend; fi

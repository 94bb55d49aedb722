#!/usr/bin/env bash
# bundle.sh OUT_DIR BUILD_DIR   Packs the programs of a build with the shared libraries and the Open MPI runtime that a bare
# GPU node lacks. glibc, the compiler's runtime, the driver and CUDA's libraries stay out: the node has its own.
# OUT_DIR gets one archive and env.sh, which unpacks it on the node's own disk.
# There:   . OUT_DIR/env.sh && mpirun -n 2 trireme train DECK
# Build with CPU_ARCH=x86-64-v3 when that node's processor may be older than this one's.
set -euo pipefail
out=${1:?usage: bundle.sh OUT_DIR BUILD_DIR} build=${2:?usage: bundle.sh OUT_DIR BUILD_DIR}
[[ -x $build/trireme ]] || { echo "bundle: no $build/trireme: build first"; exit 1; }

host_libraries='/(ld-linux[^/]*|libc|libm|libmvec|libpthread|libdl|librt|libutil|libresolv|libstdc\+\+|libgcc_s)\.so'
cuda_libraries='/(libcuda|libcudart|libcublas|libcublasLt|libcudnn[^/]*|libnccl|libnvrtc[^/]*|libnvJitLink|libnvidia[^/]*)\.so'

# The shared libraries that the given files need, all levels down, less those that the node has.
needed_by() { ldd "$@" 2> /dev/null | awk '$3 ~ /^\// {print $3}' | sort -u | grep -Ev "$host_libraries|$cuda_libraries" || true; }

rm -rf -- "$out"
mkdir -p "$out"
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/{bin,lib,etc/openmpi,share}
cp -L "$build/trireme" "$tree/bin/"
for program in "$build"/tools/*; do
  if [[ -f $program && -x $program ]]; then cp -L "$program" "$tree/bin/"; fi
done

# Open MPI: starter, daemon, plugins (less those of fabrics that one node does not use), help texts.
plugins=$(ompi_info --parseable --path libdir | sed -n 's/^path:libdir://p')
for folder in "$plugins/openmpi3" "$plugins/openmpi"; do
  if [[ -d $folder ]]; then plugins=$folder; break; fi
done
cp -L "$(command -v orterun)" "$tree/bin/orterun"
ln -s orterun "$tree/bin/mpirun"
cp -L "$(command -v orted)" "$tree/bin/orted"
mkdir "$tree/lib/openmpi" "$tree/lib/pmix"
cp -L "$plugins"/mca_*.so "$tree/lib/openmpi/"
rm -f "$tree"/lib/openmpi/mca_{spml,scoll,sshmem,memheap,atomic}_*.so "$tree"/lib/openmpi/mca_*{ucx,ofi,psm,verbs,usnic,openib,portals4,lustre,gpfs,orangefs}*.so
pmix=$(find /usr/lib -type d -path '*pmix2/lib/pmix' 2> /dev/null | head -n 1)
if [[ -n $pmix ]]; then cp -L "$pmix"/*.so "$tree/lib/pmix/"; fi
cp -rL /usr/share/openmpi "$tree/share/openmpi"

needed_by "$tree"/bin/* "$tree"/lib/openmpi/*.so "$tree"/lib/pmix/*.so | while read -r library; do cp -Ln "$library" "$tree/lib/"; done
chmod -R u+w "$tree"
strip --strip-unneeded "$tree"/lib/*.so* "$tree"/bin/*
tar -C "$tree" -czf "$out/trireme.tgz" .

cat > "$out/env.sh" << 'ENV'
# Source me: unpacks the bundle once, puts it first on the paths and finds the node's own CUDA libraries.
bundle_archive=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/trireme.tgz
bundle_dir=${TMPDIR:-/tmp}/trireme-$(id -u)-$(cksum < "$bundle_archive" | cut -d ' ' -f 1)
if [ ! -d "$bundle_dir" ]; then  # unpacked aside and moved, as several ranks of a node may source this at once
  unpacked=$(mktemp -d "$bundle_dir.XXXXXX")
  tar -C "$unpacked" -xzf "$bundle_archive"
  mv -T "$unpacked" "$bundle_dir" 2> /dev/null || rm -rf "$unpacked"
fi
cuda_dirs=
for library in libcudart.so libcublasLt.so libcudnn.so libnccl.so libnvrtc.so; do
  ldconfig -p 2> /dev/null | grep -q "$library" && continue
  found=$(find /usr/local /opt /usr/lib -name "$library*" -print -quit 2> /dev/null)
  if [ -n "$found" ]; then cuda_dirs=$cuda_dirs:$(dirname "$found"); fi
done
export PATH="$bundle_dir/bin:$PATH"
export LD_LIBRARY_PATH="$bundle_dir/lib$cuda_dirs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export OPAL_PREFIX="$bundle_dir"
export OMPI_MCA_mca_base_component_path="$bundle_dir/lib/openmpi" PMIX_MCA_mca_base_component_path="$bundle_dir/lib/pmix"
export PMIX_MCA_pmix_mca_base_component_path="$bundle_dir/lib/pmix"
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader,tcp OMPI_MCA_btl_vader_single_copy_mechanism=none
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
ENV
echo "bundle: $(du -sh "$out" | cut -f 1) in $out; source $out/env.sh on the node"

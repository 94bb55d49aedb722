#!/usr/bin/env bash
# demo.sh TRIREME   Learns a tokenizer from real English text, trains a small model on its tokens on four ranks, stops half
# way, and goes on with the same four ranks arranged differently; at the end the model speaks. Everything lands in runs/demo.
# Run from the source folder.
set -euo pipefail
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # containers are root; Open MPI wants to be told twice
trireme=${1:?usage: demo.sh TRIREME}
run=runs/demo text=runs/demo/text/english.txt tokens=runs/demo/text/english tokenizer=runs/demo/text/tokenizer.json
preprocess=$(dirname "$trireme")/tools/preprocess
vocab=$(sed -n 's/^vocab = \([0-9]*\).*/\1/p' inputs/demo.toml)
steps=$(sed -n 's/^steps = //p' inputs/demo.toml)

# The Jargon File, 1.7 MB of prose in the public domain, as Debian ships it.
fetch_text() {
  local package=jargon-text folder
  folder=$(mktemp -d)
  chmod 755 "$folder"
  (
    cd "$folder"
    apt-get -qq download $package 2> /dev/null || { apt-get -qq update && apt-get -qq download $package; }
    dpkg -x $package*.deb .
  )
  mkdir -p "$(dirname $text)"
  gzip -dc "$folder"/usr/share/doc/jargon-text/jargon.txt.gz > $text
  rm -rf "$folder"
}

if [[ ! -s $text ]]; then
  if ! command -v apt-get > /dev/null || ! fetch_text; then
    echo "demo: cannot fetch the text from a Debian archive; put one or more megabytes of English prose into $text"
    exit 1
  fi
fi
find $run -mindepth 1 -maxdepth 1 ! -name text -exec rm -rf {} +

# Shows the command and runs it. Open MPI gives the ranks a terminal even in a pipe: there, live lines are dropped.
ranks() {
  local command=(mpirun -n 4 --oversubscribe --bind-to none "$trireme" train inputs/demo.toml run.output=$run "$@")
  echo "+ ${command[*]}"
  if [[ -t 1 ]]; then "${command[@]}"; else "${command[@]}" | sed -u $'s/.*\r\e\\[K//'; fi
}

# Shows a command and runs it.
show() {
  echo "+ $*"
  "$@"
}

start=$SECONDS
echo "demo: a tokenizer of $vocab tokens from the text, and the text as tokens"
show "$preprocess" train-tokenizer $text --output $tokenizer --vocab "$vocab" --overwrite
show "$preprocess" tokenize $text --output $tokens --tokenizer $tokenizer --overwrite
echo
echo "demo: steps 1 to $((steps / 2)) on tensor 2 * pipeline 2"
ranks parallel.tensor=2 parallel.pipeline=2 run.steps=$((steps / 2))
echo
echo "demo: the rest, from the same checkpoint, on data 2 * tensor 2"
ranks parallel.tensor=2 parallel.data=2 run.resume=auto
echo
python3 tools/demo_report.py $run $tokens
echo "trained in $((SECONDS - start)) s"
echo
echo "demo: what the model says"
speak=("$trireme" generate $run --prompt "The hacker" --temperature 0.7 --top-k 40 device.kind=cpu)
printf '+'
printf ' %q' "${speak[@]}"
echo
"${speak[@]}"

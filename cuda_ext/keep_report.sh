#!/bin/sh
# keep_report.sh COMMAND...: runs a compiler and keeps what ptxas says of the kernels beside the object, not on the screen.
out=
previous=
for argument; do
  [ "$previous" = -o ] && out=$argument
  previous=$argument
done
said=$(mktemp)
"$@" 2>"$said"
code=$?
grep -v 'ptxas info\|bytes stack frame\|bytes cumulative stack' "$said" >&2
case $out in *.o) { echo "# ${out##*/}"; grep 'ptxas info\|bytes stack frame' "$said"; } >"$out.report" ;; esac
rm -f "$said"
exit $code

# What the programs of the matrix share; one.bash includes it. A program is a function app_NAME, run with errexit
# in a directory of its own, natively or under heddle: `under COMMAND...` is the program under test, and what it
# takes is measured; everything else is native, and not. It fails if any command does. Before the function a
# line says
#
#   app NAME "what is looked at" PACKAGE...
#
# for the table and for what is to be installed. NAME has - where the function has _. $APPS_SLOW: it may take so many times
# longer.
declare -A packages_of what_of
names=()
app() {
	names+=("$1")
	what_of[$1]=$2
	packages_of[$1]="${*:3}"
}

# under COMMAND...: its status; its time is added to $run/.took, and it is known to who counts kernel threads.
under() {
	local began=$EPOCHREALTIME status=0
	# shellcheck disable=SC2016  # the other shell's
	timeout -k 5 $((${limit:-120} * ${APPS_SLOW:-1})) bash -c 'echo $$ >>"$0/.pids"; exec env "$@"' "$run" "${preload[@]}" "$@" || status=$?
	echo "$began $EPOCHREALTIME" >>"$run/.took"
	return $status
}

# cached NAME COMMAND...: a file made once by COMMAND, which writes it to its output; sets file.
cached() {
	file=$cache/$1
	[ -e "$file" ] || { "${@:2}" >"$file.$$" && mv "$file.$$" "$file"; }
}

# text MEGABYTES: words of a small vocabulary, always the same; sets file.
text() {
	cached "text-$1" python3 -c '
import random, sys
r = random.Random(5)
words = ["".join(r.choices("aeilnorst", k=r.randint(2, 8))) for _ in range(3000)]
left = int(sys.argv[1]) << 20
while left > 0:
    line = " ".join(r.choices(words, k=500)) + "\n"
    sys.stdout.write(line[:left])
    left -= len(line)' "$1"
}

# program NAME FLAGS...: source/NAME.*, built once for each text; sets file.
program() {
	local source=("$here/source/$1".*)
	local built=$cache/$1-$(cat "${source[0]}" | cksum | tr -d ' ')
	if [ ! -e "$built" ]; then
		case ${source[0]} in
		*.c) gcc -O2 -pthread -o "$built.$$" "${source[0]}" "${@:2}" ;;
		*.cc) g++ -std=c++20 -O2 -pthread -o "$built.$$" "${source[0]}" "${@:2}" ;;
		*.rs) rustc --edition 2021 -O -o "$built.$$" "${source[0]}" ;;
		esac
		mv "$built.$$" "$built"
	fi
	file=$built
}

# good COMMAND...: under, and its last line is "all good".
good() {
	under "$@" >said 2>&1 || { tail -n 3 said; return 1; }
	[ "$(tail -n 1 said)" = "all good" ]
}

# same_as_natively FILE: what it holds is what it held in the native run before this one.
same_as_natively() {
	local kept=$cache/natively-$name-$1
	if [ ${#preload[@]} -eq 0 ]; then cp "$1" "$kept"; else diff "$kept" "$1"; fi
}

#!/usr/bin/env bats
# What is installed, and what the manual page and the completions know: all that --help says.
load common
load terminal
bats_require_minimum_version 1.5.0
command=$top/build/heddle
made=$top/build/packaging
subcommands=$("$command" --help | sed -n 's/^  \([a-z]*\) .*/\1/p')

teardown() {
	end_terminal
	[ -z "${pid:-}" ] || kill -KILL "$pid" 2>/dev/null || true
}

@test "make install: heddle finds its library from where it is; make uninstall leaves no file" {
	for prefix in /usr /opt/h; do
		make -s -C "$top" install DESTDIR="$work/root" PREFIX="$prefix"
		at=$work/root$prefix
		[ -s "$at/share/man/man1/heddle.1" ]
		ln -s "$at/bin/heddle" "$work/link"
		run "$work/link" -p 2 sh -c 'echo "$LD_PRELOAD"'
		[ "$status" -eq 0 ]
		[ "$output" = "$at/lib/heddle/libheddle.so" ]
		"$at/bin/heddle" run -p 2 cat /proc/self/maps | grep -qF "$at/lib/heddle/libheddle.so"
		rm "$work/link"
		[ "$(find "$work/root" -type f | wc -l)" -eq 7 ]
		mkdir -p "$at/share/man/man1"
		touch "$at/share/man/man1/another.1"
		make -s -C "$top" uninstall DESTDIR="$work/root" PREFIX="$prefix"
		[ "$(find "$work/root" ! -type d)" = "$at/share/man/man1/another.1" ]
		[ -z "$(find "$work/root" -name '*heddle*')" ]
		rm -r "$work/root"
	done
}

@test "without its library the command says so" {
	cp "$command" "$work/heddle"
	run "$work/heddle" true
	[ "$status" -eq 126 ]
	[[ $output == *"libheddle.so: No such file"* ]]
}

@test "where LD_PRELOAD cannot name its library the command says so" {
	mkdir "$work/a b"
	cp "$command" "$heddle" "$work/a b"
	run "$work/a b/heddle" true
	[ "$status" -eq 126 ]
	[[ $output == *"LD_PRELOAD knows no name with a space"* ]]
}

@test "the manual page has no mistakes, and each option of --help with its text, and no other" {
	command -v mandoc >/dev/null || skip "no mandoc"
	mandoc -T lint -W warning "$made/heddle.1"
	mandoc -T utf8 -O width=300 "$made/heddle.1" | sed 's/.\x08//g' >"$work/page"
	[ "$(wc -l <"$work/page")" -gt 100 ]
	n=0
	for sub in $subcommands; do
		"$command" "$sub" --help >"$work/help"
		# Its own part of the page; "-p, --procs N  text" is "-p, --procs N" and below it "text".
		sed -n "/^   heddle $sub\b/,/^   heddle \|^[A-Z]/p" "$work/page" | tr -s ' \n' ' ' >"$work/part"
		grep -qF "heddle $(sed -n '1s/^usage: heddle //p' "$work/help")" "$work/part"
		while read -r line; do
			grep -qF -- "$(tr -s ' ' <<<"$line")" "$work/part"
			n=$((n + 1))
		done < <(grep '^  ' "$work/help" | grep -vE -- '--(help|version) ')
	done
	[ "$n" -ge 13 ]
	# As many as that begin with a minus are in the whole section.
	sed -n '/^SUBCOMMANDS/,/^ENVIRONMENT/p' "$work/page" | grep -cE '^ +--?[a-z]|^ +[a-z-]+=[A-Za-z]' | grep -qx "$n"
	# And each variable that is read.
	for variable in $(sed -n 's/^VARIABLE("\([A-Z_]*\)".*/\1/p' "$top/shim/variables.def"); do
		grep -q "^ *$variable=" "$work/page"
		strings "$heddle" | grep -qx "$variable"
	done
}

# completed WORD...: what bash offers for the last of them.
completed() {
	env -i PATH="$(dirname "$command"):$PATH" bash -c '
		. "$1"
		shift
		compopt() { :; }
		COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
		_heddle
		printf "%s\n" "${COMPREPLY[@]}"' _ "$made/completion.bash" heddle "$@" | tr '\n' ' '
}

@test "bash completes subcommands, options, their values, settings and programs" {
	[ "$(completed st)" = "stats " ]
	for sub in $subcommands; do
		[[ " $(completed '')" == *" $sub "* ]]
		# Each option that its help names.
		for option in $("$command" "$sub" --help | grep -oE -- '^  .{4}--[a-z-]+' | grep -oE -- '--.*'); do
			[[ " $(completed "$sub" --)" == *" $option"[=\ ]* ]]
		done
	done
	[ "$(completed stats --j)" = "--json " ]
	[ "$(completed --dead)" = "--deadlock= " ]
	[ "$(completed --deadlock '')" = "report abort " ]
	[ "$(completed run --deadlock = a)" = "abort " ]
	[ "$(completed run --deadlock =)" = "report abort " ]
	[ "$(completed run --procs '')" = " " ]
	[ "$(completed ctl 12 '')" = "procs= max-threads= slice= trace= " ]
	[ "$(completed ctl 12 procs = '')" = " " ]
	[[ " $(completed run -p 2 python)" == *" python3 "* ]]
	[[ " $(completed doctor true python)" == *" python3 "* ]]
	# What comes after the program is its own.
	touch "$work/some-file"
	[ "$(cd "$work" && completed run -p 2 stats some)" = "some-file " ]
	[ "$(completed stats 12 13 '')" = " " ]
}

@test "bash completes PIDs, of processes under heddle only" {
	load inside
	fifty
	[[ " $(completed dump '')" == *" $pid "* ]]
	[[ " $(completed dump '')" != *" $$ "* ]]
	end_watched
}

@test "in a terminal: bash" {
	command -v tmux >/dev/null || skip "no tmux"
	echo ". $made/completion.bash; PS1='> '" >"$work/rc"
	in_terminal 100 30 env PATH="$top/build:$PATH" bash --rcfile "$work/rc"
	# What comes before a prompt, or while a program runs, is the terminal's to show.
	until_shown '^> *$'
	keys "heddle do" Tab "mktem" Tab Enter
	until_shown "^> heddle doctor mktemp *$"
	until_shown "runs on heddle"
	until_shown '^> *$'
	keys "heddle --deadl" Tab "ab" Tab "printenv HEDDLE_DEADLOCK" Enter
	until_shown "^> heddle --deadlock=abort printenv"
	until_shown "^abort"
	until_shown '^> *$'
	keys "heddle ctl 1 pr" Tab "4"
	until_shown "^> heddle ctl 1 procs=4"
}

@test "in a terminal: zsh" {
	command -v zsh >/dev/null || skip "no zsh"
	load inside
	fifty
	mkdir "$work/functions"
	cp "$made/completion.zsh" "$work/functions/_heddle"
	echo "fpath=($work/functions \$fpath); autoload -U compinit; compinit -u -d $work/dump; unsetopt ALWAYS_LAST_PROMPT
		bindkey -e; PS1='> '" >"$work/.zshrc"
	in_terminal 100 30 env PATH="$top/build:$PATH" HOME="$work" ZDOTDIR="$work" zsh -d
	until_shown '^> *$'
	keys "heddle sta" Tab "--j" Tab
	until_shown "^> heddle stats --json"
	keys C-u "heddle "
	until_shown "^> heddle *$"
	keys C-d
	until_shown "doctor.*-- Says what works"
	keys C-u C-l "heddle run --deadlock=" Tab
	until_shown "abort.*report"
	keys C-u C-l "heddle dump ${pid:0:${#pid}-1}"
	until_shown "^> heddle dump ${pid:0:${#pid}-1} *$"
	keys C-d
	until_shown "$pid .*python3"
	keys C-u C-l "heddle ctl $pid pr" Tab "4"
	until_shown "^> heddle ctl $pid procs=4"
	keys C-u C-l "heddle -p 2 seq 1 --he" Tab
	until_shown "^> heddle -p 2 seq 1 --he"
}

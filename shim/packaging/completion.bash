# bash completion of heddle. Of options and operands it knows what the rows say; of processes, what `heddle ps` does.

_heddle_rows() {
	cat <<'END'
@rows@
END
}

# _heddle_find KIND SUBCOMMAND [NAME]: sets names, of that NAME, long or short, only, with "=" if they take a value; and
# value, of the last.
_heddle_find() {
	local kind of letter name form what
	names=() value=
	while IFS=: read -r kind of letter name form what; do
		[[ $kind == "$1" && $of == "$2" ]] || continue
		[[ -z ${3-} || $3 == "--$name" || $3 == "-$letter" ]] || continue
		names+=("$name${form:+=}")
		value=$form
	done < <(_heddle_rows)
}

# _heddle_offer WORD...: those that begin so. Behind a "=" comes no space.
_heddle_offer() {
	mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$*" -- "$current")
	[[ ${COMPREPLY[*]} != *= ]] || compopt -o nospace
}

# _heddle_word FORM: what a value or an operand of that form may be.
_heddle_word() {
	local names value form=${1#[}
	form=${form%]}
	case ${form%...} in
	PID)
		_heddle_offer "$("${COMP_WORDS[0]}" ps 2>/dev/null | { read -r _ && while read -r p _; do echo "$p"; done; })"
		;;
	SETTING=VALUE)
		_heddle_find setting "$sub"
		_heddle_offer "${names[@]}"
		;;
	COMMAND | PROGRAM)
		if [[ $current == */* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$current")
		else
			mapfile -t COMPREPLY < <(compgen -c -- "$current" | sort -u)
		fi
		;;
	FILE | ARGUMENT)
		compopt -o filenames
		mapfile -t COMPREPLY < <(compgen -f -- "$current")
		;;
	*\|*) _heddle_offer "${form//|/ }" ;;
	esac
}

_heddle() {
	local current=${COMP_WORDS[COMP_CWORD]} names value sub=run commands at=1 word nth=0 plain='' operands
	COMPREPLY=()
	_heddle_find command ''
	commands=("${names[@]}")
	if ((COMP_CWORD > 1)) && [[ " ${commands[*]} " == *" ${COMP_WORDS[1]} "* ]]; then
		sub=${COMP_WORDS[1]}
		at=2
	fi
	_heddle_find operands "$sub"
	read -ra operands <<<"${value/'[--] '/}"
	# bash takes --option=value and setting=value for three words.
	for (( ; at < COMP_CWORD; at++)); do
		word=${COMP_WORDS[at]}
		if [[ -z $plain && $word == -- ]]; then
			plain=1
		elif [[ -z $plain && $word == -?* ]]; then
			_heddle_find option "$sub" "$word"
			[[ -n $value ]] || continue
			((++at))
			if [[ ${COMP_WORDS[at]} == = ]]; then
				if ((at == COMP_CWORD)); then current=; else ((++at)); fi
			fi
			((at < COMP_CWORD)) || { _heddle_word "$value"; return; }
		elif [[ ${operands[0]-} == COMMAND ]]; then
			# The rest is another program's.
			if declare -F _command_offset >/dev/null; then _command_offset "$at"; else _heddle_word FILE; fi
			return
		elif [[ $word != = && ${COMP_WORDS[at - 1]} != = ]]; then
			((++nth))
		fi
	done
	if [[ -z $plain && $current == -* ]]; then
		_heddle_find option "$sub"
		_heddle_offer "${names[@]/#/--}"
		return
	fi
	[[ ${COMP_WORDS[COMP_CWORD - 1]} != = && $current != = ]] || return
	((COMP_CWORD > 1)) || _heddle_offer "${commands[@]}"
	word=${operands[nth]-}
	# The last may be repeated.
	[[ -n $word || ${#operands[@]} -eq 0 || ${operands[-1]} != *...* ]] || word=${operands[-1]}
	[[ $sub == run && ${#COMPREPLY[@]} -gt 0 ]] || _heddle_word "$word"
}

complete -F _heddle heddle

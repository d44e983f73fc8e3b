#compdef heddle
# zsh completion of heddle. Of options and operands it knows what the rows say; of processes, what `heddle ps` does.

_heddle_rows() {
	cat <<'END'
@rows@
END
}

# A text in a specification: what would end it is quoted.
_heddle_quoted() {
	REPLY=${1//(#m)[\[\]:\\]/\\$MATCH}
}

_heddle_pids() {
	local -a pids
	local pid rest _
	"$heddle" ps 2>/dev/null | {
		read -r rest
		while read -r pid _ _ _ _ rest; do
			_heddle_quoted "$rest"
			pids+=("$pid:$REPLY")
		done
		_describe -V 'process of heddle' pids
	}
}

_heddle_settings() {
	local -a settings
	local kind of letter name form what
	while IFS=: read -r kind of letter name form what; do
		[[ $kind == setting && $of == $sub ]] || continue
		settings+=("$name=:$what")
	done < <(_heddle_rows)
	_describe 'setting' settings -S ''
}

# The action of _arguments for a form; in REPLY.
_heddle_action() {
	case $1 in
	PID) REPLY=_heddle_pids ;;
	SETTING=VALUE) REPLY=_heddle_settings ;;
	COMMAND | PROGRAM) REPLY='{_command_names -e; _files -g "*(-*)"}' ;;
	FILE) REPLY=_files ;;
	*\|*) REPLY="(${1//|/ })" ;;
	*) REPLY=' ' ;;
	esac
}

# The specifications of a subcommand, in specs.
_heddle_specs() {
	local kind of letter name form what word often names glue
	specs=()
	while IFS=: read -r kind of letter name form what; do
		[[ $of == $1 ]] || continue
		_heddle_quoted "$what"
		what=$REPLY
		case $kind in
		option)
			glue='' names="(--$name)"
			if [[ -n $form ]]; then
				_heddle_action "$form"
				glue=":$form:$REPLY"
			fi
			[[ -z $letter ]] || specs+=("(-$letter --$name)-$letter${form:++}[$what]$glue") names="(-$letter --$name)"
			specs+=("$names--$name${form:+=}[$what]$glue")
			;;
		operands)
			for word in ${=form#'[--] '}; do
				often=''
				[[ $word != \[* ]] || often=:
				[[ $word != *...* ]] || often='*'
				word=${${${word#\[}%\]}%...}
				if [[ $word == ARGUMENT ]]; then
					specs+=('*::argument:_normal')
					continue
				fi
				_heddle_action "$word"
				[[ $often == '*' ]] && specs+=("*:$word:$REPLY") || specs+=("$often:$word:$REPLY")
			done
			;;
		esac
	done < <(_heddle_rows)
}

_heddle() {
	setopt localoptions extendedglob
	local -a commands specs
	local heddle=$words[1] sub=run kind of letter name form what
	while IFS=: read -r kind of letter name form what; do
		[[ $kind != command ]] || commands+=("$name:$what")
	done < <(_heddle_rows)
	if ((CURRENT > 2)) && ((${commands[(I)${(b)words[2]}:*]})); then
		sub=$words[2]
		shift words
		((CURRENT--))
	elif ((CURRENT == 2)) && [[ $words[2] != -* ]]; then
		_describe 'subcommand' commands && return
	fi
	_heddle_specs $sub
	_arguments -s -S -A '-*' : $specs
}

_heddle "$@"

# A terminal to type into and to look at. Read common.bash first, and end with end_terminal.

# in_terminal COLUMNS ROWS COMMAND...: it runs there. keys, shown: to it, and what is on it.
in_terminal() {
	local columns=$1 rows=$2
	shift 2
	screen=heddle-$BATS_TEST_NUMBER-$$
	tmux -L "$screen" -f /dev/null new-session -d -x "$columns" -y "$rows" "$@" 3>&-
}
keys() { tmux -L "$screen" send-keys "$@"; }
shown() { tmux -L "$screen" capture-pane -p; }

until_shown() { comes shows "$1" || { shown; false; }; }
shows() { shown | grep -q -- "$1"; }

end_terminal() {
	[ -z "${screen:-}" ] || tmux -L "$screen" kill-server 2>/dev/null || true
}

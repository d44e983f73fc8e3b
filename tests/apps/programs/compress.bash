# What compresses with threads: the result is restored by another program, natively, and must be the same.

app pigz "12 MiB there by 8 threads, and back" pigz gzip
app_pigz() {
	text 12
	under pigz -p 8 -c "$file" >z
	gzip -dc z | cmp - "$file"
	under pigz -p 8 -dc z | cmp - "$file"
}

app pbzip2 "12 MiB there by 8 threads, and back" pbzip2 bzip2
app_pbzip2() {
	text 12
	under pbzip2 -p8 -c "$file" >z
	bzip2 -dc z | cmp - "$file"
	under pbzip2 -p8 -dc z | cmp - "$file"
}

app lbzip2 "12 MiB there by 8 threads, and back" lbzip2 bzip2
app_lbzip2() {
	text 12
	under lbzip2 -n 8 -c "$file" >z
	bzip2 -dc z | cmp - "$file"
	under lbzip2 -n 8 -dc z | cmp - "$file"
}

app plzip "16 MiB there by 8 threads, and back" plzip
app_plzip() {
	text 16
	under plzip -n 8 -1 -c "$file" >z
	plzip -n 1 -dc z | cmp - "$file"
	under plzip -n 8 -dc z | cmp - "$file"
}

app xz "12 MiB there by 4 threads, and back" xz-utils
app_xz() {
	text 12
	under xz -T4 -1 --block-size=1MiB -c "$file" >z
	xz -T1 -dc z | cmp - "$file"
	under xz -T4 -dc z | cmp - "$file"
}

app pixz "8 MiB there by 4 threads, and back" pixz xz-utils
app_pixz() {
	text 8
	under pixz -p 4 -1 -t <"$file" >z
	xz -dc z | cmp - "$file"
}

app zstd "64 MiB there by 4 threads, and back" zstd
app_zstd() {
	text 64
	under zstd -q -T4 -5 -c "$file" >z
	zstd -q -dc z | cmp - "$file"
	under zstd -q -dc z | cmp - "$file"
}

app 7zip "12 MiB there and back, lzma2 and bzip2, 4 threads" 7zip
app_7zip() {
	local z
	# Its name on Debian 12, and on later ones.
	z=$(command -v 7zz || command -v 7z)
	text 12
	for how in lzma2 bzip2; do
		under "$z" a -bd -bso0 -mmt4 -mx1 -m0=$how $how.7z "$file"
		"$z" t -bso0 -mmt1 $how.7z
		under "$z" e -so -bsp0 -mmt4 $how.7z | cmp - "$file"
	done
}

app lrzip "3 MiB there by 4 threads, and back" lrzip
app_lrzip() {
	text 3
	under lrzip -Q -p 4 -L 3 -o z "$file"
	under lrzip -Q -p 4 -d -o back z
	cmp back "$file"
}

app mbuffer "48 MiB to two files at once, through 1 MiB" mbuffer
app_mbuffer() {
	text 48
	under mbuffer -q -m 1M -s 16k -i "$file" -o a -o b 2>said
	cmp a "$file"
	cmp b "$file"
}

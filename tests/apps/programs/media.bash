# Pictures and sounds: with threads they must be, bit by bit, those of a native run.

clip() {
	cached clip.y4m ffmpeg -v error -f lavfi -i testsrc2=s=480x272:r=25:d=2 -pix_fmt yuv420p -f yuv4mpegpipe -
}

# as_natively COMMAND...: what it writes to its output, natively, is what it writes under test.
as_natively() {
	cached "as-$name-$(cksum <<<"$*" | tr -d ' ')" "$@"
	under "$@" >out 2>said
	cmp out "$file"
}

app x264 "50 frames by 8 frame threads" x264 ffmpeg
app_x264() {
	clip
	as_natively x264 --quiet --no-progress --threads 8 --preset fast --demuxer y4m -o - "$file"
}

app x264-slices "50 frames by 4 slice threads" x264 ffmpeg
app_x264_slices() {
	clip
	as_natively x264 --quiet --no-progress --threads 4 --sliced-threads --preset fast --demuxer y4m -o - "$file"
}

# With several frames at once it is itself not the same each time: of 480 native runs, four at a time, five differed.
app x265 "50 frames, a pool of 4" x265 ffmpeg
app_x265() {
	clip
	as_natively x265 --log-level none --no-progress --pools 4 --frame-threads 1 --preset ultrafast --y4m "$file" -o /dev/stdout
}

app vpx "50 frames of VP9 by 4 threads" vpx-tools ffmpeg
app_vpx() {
	clip
	as_natively vpxenc --quiet --codec=vp9 --threads=4 --tile-columns=2 --row-mt=1 --cpu-used=7 --rt --limit=50 --ivf -o - "$file"
}

app aom "12 frames of AV1 by 4 threads" aom-tools ffmpeg
app_aom() {
	clip
	as_natively aomenc --quiet --threads=4 --tile-columns=1 --row-mt=1 --cpu-used=9 --rt --limit=12 --ivf -o - "$file"
}

app dav1d "12 frames of AV1 decoded by 6 threads" dav1d aom-tools ffmpeg
app_dav1d() {
	clip
	cached clip.ivf aomenc --quiet --cpu-used=9 --rt --limit=12 --ivf -o - "$file"
	as_natively dav1d -q --threads 6 --muxer md5 -i "$file" -o -
}

app ffmpeg "50 frames: decoded by 8 threads, filtered by 4, encoded by 6" ffmpeg
app_ffmpeg() {
	clip
	as_natively ffmpeg -nostdin -v error -threads 8 -i "$file" -vf scale=320:180,unsharp,hflip -filter_threads 4 \
		-c:v libx264 -threads:v 6 -preset veryfast -f framemd5 -bitexact -
}

app gstreamer "100 frames through 4 queues and a tee" gstreamer1.0-tools gstreamer1.0-plugins-base
app_gstreamer() {
	export GST_REGISTRY=$cache/gst-registry
	[ -e "$GST_REGISTRY" ] || gst-launch-1.0 -q fakesrc num-buffers=1 ! fakesink
	under gst-launch-1.0 -q videotestsrc num-buffers=100 ! video/x-raw,format=I420,width=320,height=240 ! queue ! \
		videoconvert n-threads=4 ! video/x-raw,format=RGB ! queue ! tee name=t \
		t. ! queue ! filesink location=a t. ! queue ! filesink location=b
	[ "$(stat -c %s a)" -eq $((100 * 320 * 240 * 3)) ]
	cmp a b
}

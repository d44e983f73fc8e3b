/* The report as a page: one file of HTML, without scripts, for light and dark. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "drawing.h"
#include "say.h"

static const char style[] =
	":root{color-scheme:light dark;--page:#fbfbfa;--card:#fff;--ink:#1f2328;--soft:#656d76;--line:#e4e6e9;"
	"--good:#1a7f37;--bad:#cf222e;--none:#8c959f;--k0:#57606a;--k1:#a8b0b8;--k2:#0969da;--k3:#d4760a;"
	"--k4:#1a7f37;--k5:#bf3989;--k6:#8250df;--k7:#0e7c86}\n"
	"@media(prefers-color-scheme:dark){:root{--page:#0f1215;--card:#171b20;--ink:#e6e8ea;--soft:#98a1aa;"
	"--line:#2b3138;--good:#3fb950;--bad:#ff7b72;--none:#7d8590;--k0:#aeb6be;--k1:#656d76;--k2:#58a6ff;"
	"--k3:#f0a040;--k4:#56d364;--k5:#f778ba;--k6:#bc8cff;--k7:#39c5cf}}\n"
	"body{margin:0;background:var(--page);color:var(--ink);font:16px/1.5 system-ui,sans-serif}\n"
	"main{max-width:920px;margin:0 auto;padding:32px 20px 60px}\n"
	"h1{font-size:15px;font-weight:600;margin:0;color:var(--soft)}\n"
	"h2{font-size:17px;margin:40px 0 4px}\n"
	"p{margin:4px 0 12px}.soft,figcaption,footer{color:var(--soft);font-size:14px}\n"
	"code{font:600 20px/1.4 ui-monospace,monospace;overflow-wrap:anywhere}\n"
	".card{background:var(--card);border:1px solid var(--line);border-left:5px solid var(--none);"
	"border-radius:8px;padding:12px 18px;margin:14px 0}\n"
	".good{border-left-color:var(--good)}.bad{border-left-color:var(--bad)}\n"
	".card b{font-size:19px}.card .who{color:var(--soft);font-size:14px}\n"
	"figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:12px}\n"
	"svg{width:100%;height:auto;display:block}svg text{fill:var(--soft);font:13px system-ui,sans-serif}\n"
	"text.name{text-anchor:end;fill:var(--ink)}text.tick{text-anchor:middle}svg text.mark{font-size:11px;fill:var(--ink)}.before{text-anchor:end}\n"
	".grid{stroke:var(--line)}.one{stroke:var(--ink);stroke-dasharray:3 3}\n"
	".dot{fill-opacity:.7}.box{fill-opacity:.18}.median{stroke-width:3}.interval{stroke-width:4;"
	"stroke-linecap:round;stroke-opacity:.55}.ratio{fill-opacity:1}.wave{fill-opacity:.35}.mark{stroke-width:1.5}\n"
	".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:14px;width:100%;"
	"font-variant-numeric:tabular-nums}\n"
	"th,td{padding:5px 10px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}\n"
	"th:first-child,td:first-child{text-align:left}th{font-weight:600}\n"
	"summary{cursor:pointer;margin:36px 0 8px;font-weight:600}footer{margin-top:40px}\n";

static void head(const struct experiment *e, FILE *to)
{
	fputs("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>heddle ab: ",
	      to);
	draw_text(to, e->line);
	fprintf(to, "</title>\n<style>%s", style);
	for (int k = 0; k < e->narms; k++)
		fprintf(to,
			".k%d{fill:var(--k%d);stroke:none}.k%d.median,.k%d.interval,.k%d.mark{stroke:var(--k%d)}",
			k, k < 8 ? k : 2 + (k - 2) % 6, k, k, k, k < 8 ? k : 2 + (k - 2) % 6);
	fputs("</style></head>\n<body><main>\n", to);
}

static void machine(const struct experiment *e, FILE *to)
{
	char date[64] = "", took[SAY_TIME];
	time_t now = time(NULL);
	struct utsname u;
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(date, sizeof(date), "%Y-%m-%d %H:%M", &tm);
	fputs("<h1>heddle ab</h1>\n<code>", to);
	draw_text(to, e->line);
	fprintf(to,
		"</code>\n<p class=\"soft\">%d rounds, the order of each by seed %llu; %d warm-ups of each; "
		"%s. %s",
		e->rounds, (unsigned long long)e->seed, e->warmups,
		say_time(took, (uint64_t)(e->took * 1e9)), date);
	if (uname(&u) == 0) {
		fputs("; ", to);
		draw_text(to, u.nodename);
		fprintf(to, ", %ld cpus, Linux %s", sysconf(_SC_NPROCESSORS_ONLN), u.release);
	}
	fprintf(to, "%s</p>\n", e->interrupted ? ". <b>Cut short.</b>" : "");
}

static void verdict_card(const struct experiment *e, int i, FILE *to)
{
	const struct comparison *c = &e->of[i];
	char words[WORDS], p[NUMBER];
	bool told = c->verdict == LESS || c->verdict == MORE;
	bool better = c->verdict == (e->higher ? MORE : LESS);

	fprintf(to, "<div class=\"card%s\"><span class=\"who\">",
		!told	 ? ""
		: better ? " good"
			 : " bad");
	draw_name(e, i + 1, to);
	fputs(" against ", to);
	draw_name(e, A, to);
	words_verdict(e, i, words);
	fputs(told ? "</span><br><b>" : "</span><br><span>", to);
	draw_text(to, words);
	fputs(told ? "</b>" : "</span>", to);
	if (!isnan(c->interval.low)) {
		words_p(c->p, p);
		fputs("<br><span class=\"soft\">", to);
		draw_text(to, words_metric(e->metric));
		fprintf(to, ", ratio %.4g (95 %%: %.4g–%.4g); Mann-Whitney ", c->ratio,
			c->interval.low, c->interval.high);
		draw_text(to, p);
		fprintf(to, "; Cliff's delta %+.2f</span>", c->ranks.delta);
	}
	fputs("</div>\n", to);
}

static void wrong_cards(const struct experiment *e, FILE *to)
{
	char text[1024];

	for (int k = 0; k < e->narms; k++) {
		for (int what = 0; what <= STREAMS; what++) {
			bool failed = what == STREAMS;
			if (failed ? !words_failures(e, k, text)
				   : !words_answers(e, k, what, text, sizeof(text)))
				continue;
			fprintf(to, "<div class=\"card%s\"><span class=\"who\">",
				failed || k != A ? " bad" : "");
			draw_name(e, k, to);
			fputs("</span><br>", to);
			draw_text(to, text);
			if (failed && *e->arms[k].last_words) {
				fputs("; its last words: ", to);
				draw_text(to, e->arms[k].last_words);
			}
			fputs("</div>\n", to);
		}
		if (*e->arms[k].natively) {
			fputs("<div class=\"card bad\"><span class=\"who\">", to);
			draw_name(e, k, to);
			fputs("</span><br>not under heddle: ", to);
			draw_text(to, e->arms[k].natively);
			fputs("</div>\n", to);
		}
	}
}

static void figure(const struct experiment *e, const char *title, const char *caption,
		   void (*draw)(const struct experiment *, FILE *), FILE *to)
{
	fprintf(to, "<h2>%s</h2>\n<p class=\"soft\">%s</p>\n<figure>\n", title, caption);
	draw(e, to);
	fputs("</figure>\n", to);
}

static void waits(const struct experiment *e, FILE *to)
{
	draw_waits(e, to);
}

static void counter_row(const struct experiment *e, const char *name, FILE *to)
{
	char number[SAY_COUNT];
	bool any = false;

	for (int k = 0; k < e->narms; k++)
		any |= arm_counter(&e->arms[k], name) > 0;
	if (!any || !counters_text(name))
		return;
	fprintf(to, "<tr><td>%s <span class=\"soft\">%s</span></td>", name, counters_text(name));
	for (int k = 0; k < e->narms; k++)
		if (k != CONTROL)
			fprintf(to, "<td>%s</td>",
				e->arms[k].ncounted == 0
					? "–"
					: say_count(number,
						    (uint64_t)arm_counter(&e->arms[k], name)));
	fputs("</tr>\n", to);
}

static void table_head(const struct experiment *e, FILE *to)
{
	fputs("<div class=\"scroll\"><table><tr><th>medians</th>", to);
	for (int k = 0; k < e->narms; k++) {
		if (k == CONTROL)
			continue;
		fputs("<th>", to);
		draw_name(e, k, to);
		fputs("</th>", to);
	}
	fputs("</tr>\n", to);
}

static void counters(const struct experiment *e, FILE *to)
{
	const struct counters *rows = NULL;
	char number[NUMBER];

	fputs("<h2>Side by side</h2>\n<p class=\"soft\">Of the runs; and of the scheduler, in the warm-ups, for "
	      "its clocks cost time.</p>\n",
	      to);
	table_head(e, to);
	for (int m = WALL; m < METRICS - (e->metric != MATCHED); m++) {
		fprintf(to, "<tr><td>%s</td>", words_metric((enum metric)m));
		for (int k = 0; k < e->narms; k++)
			if (k != CONTROL)
				fprintf(to, "<td>%s</td>",
					words_value((enum metric)m,
						    arm_median(e, &e->arms[k], (enum metric)m),
						    number));
		fputs("</tr>\n", to);
	}
	for (int k = 0; k < e->narms; k++)
		for (int i = 0; i < e->arms[k].ncounted; i++)
			if (!rows || e->arms[k].counted[i]->n > rows->n)
				rows = e->arms[k].counted[i];
	for (int i = 0; rows && i < rows->n; i++)
		counter_row(e, rows->of[i].name, to);
	fputs("</table></div>\n", to);
}

static void every_run(const struct experiment *e, FILE *to)
{
	char number[NUMBER];

	fputs("<details><summary>Every run</summary>\n<div class=\"scroll\"><table><tr><th>round</th>",
	      to);
	for (int k = 0; k < e->narms; k++) {
		fputs("<th>", to);
		draw_name(e, k, to);
		fputs("</th>", to);
	}
	fputs("</tr>\n", to);
	for (int i = 0; i < e->rounds; i++) {
		fprintf(to, "<tr><td>%d</td>", i + 1);
		for (int k = 0; k < e->narms; k++) {
			const struct run *r = &e->arms[k].runs[i];
			fprintf(to, "<td>%s</td>",
				!r->done   ? "–"
				: !r->good ? "failed"
					   : words_value(e->metric, r->value[e->metric], number));
		}
		fputs("</tr>\n", to);
	}
	fputs("</table></div></details>\n", to);
}

static bool any_waits(const struct experiment *e)
{
	uint64_t of[TIMES_BUCKETS], longest;
	bool any = false;

	for (int k = 0; k < e->narms; k++)
		any |= arm_waits(&e->arms[k], of, &longest);
	return any;
}

void report_page(const struct experiment *e, FILE *to)
{
	char title[128];

	head(e, to);
	machine(e, to);
	wrong_cards(e, to);
	for (int i = 1; i < e->narms - 1; i++)
		verdict_card(e, i, to);
	verdict_card(e, 0, to);
	snprintf(title, sizeof(title), "The runs: %s, %s is better", words_metric(e->metric),
		 e->higher ? "higher" : "lower");
	figure(e, title, "A dot is a run, the bar the median, the band the middle half.",
	       draw_values, to);
	figure(e, "The ratio to a",
	       "The median of the ratios within rounds, and the interval that holds it in 95 % of cases; a "
	       "against itself is the control.",
	       draw_ratios, to);
	figure(e, "Round by round", "Does the machine become slower, or have fits?", draw_rounds,
	       to);
	if (any_waits(e))
		figure(e, "How long a runnable thread waited for a P",
		       "The share of all waits by their length, of the warm-ups; half of them are shorter than "
		       "the first mark, 99 % than the second.",
		       waits, to);
	counters(e, to);
	every_run(e, to);
	fputs("<footer>That a variant differs is said if three agree: the bootstrap interval of the median ratio, "
	      "whole rounds resampled, leaves out 1; the test of Mann and Whitney gives p below 0.05, by Holm's "
	      "method for several; and a does not differ from itself as much.</footer>\n"
	      "</main></body></html>\n",
	      to);
}

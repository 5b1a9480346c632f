package schedule

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/everturn/everturn/starter/internal/cli/app"
)

// whenFlags are the flags for a schedule's times. Exactly one of every and cron is set.
type whenFlags struct {
	every, jitter, catchUp time.Duration
	cron, zone             string
}

// register adds the flags.
func (w *whenFlags) register(flags *pflag.FlagSet) {
	flags.DurationVar(&w.every, "every", 0, "the interval, for example 1h; whole seconds, at least 10s")
	flags.StringVar(&w.cron, "cron", "", "the times: minute, hour, day of the month, month, day of the week, for "+
		"example \"0 9 * * 1-5\"")
	flags.StringVar(&w.zone, "zone", "", "with --cron: the time `zone`, for example Europe/Berlin (default UTC)")
	flags.DurationVar(&w.jitter, "jitter", 0, "a random delay of up to this `duration`")
	flags.DurationVar(&w.catchUp, "catch-up", time.Hour, "how far back to run missed times after Temporal was down")
}

// minInterval is the shortest interval. A shorter one is probably a typing error, which would cost money all day.
const minInterval = 10 * time.Second

// shorthands are the cron expressions that Temporal accepts besides those with five fields.
var shorthands = []string{"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"}

// check returns an error for invalid times. It does not check the fields of a cron expression; the server does.
func (w whenFlags) check() error {
	switch {
	case w.every == 0 && w.cron == "":
		return app.Usage("the schedule has no times: use --every 1h, or --cron \"0 9 * * 1-5\"")
	case w.every != 0 && w.cron != "":
		return app.Usage("--every and --cron exclude each other: use one of them")
	case w.cron == "" && w.every%time.Second != 0:
		return app.Usage("--every is %s: use whole seconds", w.every)
	case w.cron == "" && w.every < minInterval:
		return app.Usage("--every is %s: use at least %s, because every turn costs money", w.every, minInterval)
	case w.cron == "" && w.zone != "":
		return app.Usage("--zone needs --cron: an interval does not depend on the time zone")
	case w.cron != "" && !slices.Contains(shorthands, w.cron) && len(strings.Fields(w.cron)) != 5:
		return app.Usage("--cron is %q: use five fields (minute, hour, day of the month, month, day of the week), for "+
			"example "+
			"\"0 9 * * 1-5\", or one of %s", w.cron, strings.Join(shorthands, ", "))
	case strings.Contains(w.cron, "TZ="):
		return app.Usage("--cron contains a time zone: use --zone instead")
	case w.jitter < 0 || w.every != 0 && w.jitter >= w.every:
		return app.Usage("--jitter is %s: use a shorter duration than --every", w.jitter)
	case w.catchUp < 10*time.Second: // the server's minimum
		return app.Usage("--catch-up is %s: use at least 10s", w.catchUp)
	}
	return w.checkZone()
}

// checkZone returns an error for an unknown time zone. Without time zone data on this machine it accepts every name,
// which the server then checks.
func (w whenFlags) checkZone() error {
	if w.zone == "" {
		return nil
	}
	_, unknown := time.LoadLocation(w.zone)
	_, noData := time.LoadLocation("Europe/London") // an existing zone, which is unknown only if there are no data
	// "Local" is known to Go, but the server would take it for its own zone.
	if w.zone == "Local" || unknown != nil && noData == nil {
		return app.Usage("--zone is %q, which is not a time zone: use a name such as Europe/Berlin or UTC", w.zone)
	}
	return nil
}

// String describes the times in words, for example "every 1h0m0s, up to 5m0s later".
func (w whenFlags) String() string {
	when := fmt.Sprintf("every %s", w.every)
	if w.cron != "" {
		zone := w.zone
		if zone == "" {
			zone = "UTC"
		}
		when = fmt.Sprintf("cron %s (%s)", w.cron, zone)
	}
	if w.jitter > 0 {
		when += fmt.Sprintf(", up to %s later", w.jitter)
	}
	return when
}

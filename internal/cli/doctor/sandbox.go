package doctor

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/driver"
)

// Sandboxes runs the driver's own checks. open creates the driver and returns a function that cleans up after it.
func Sandboxes(allowWeak bool, open func() (d driver.Checker, done func(), err error)) Check {
	return func(ctx context.Context) []driver.Finding {
		var all []driver.Finding
		if allowWeak {
			all = append(all, driver.Finding{
				Name:   "weak sandboxes",
				Level:  driver.Warn,
				Detail: "allowed by configuration: agents run without limits of memory and CPU where this machine cannot set them; run trusted agents only",
				Fix:    "unset sandbox.allow_weak (ROLLOUTD_ALLOW_WEAK_SANDBOX)",
			})
		}

		d, done, err := open()
		if err != nil {
			return append(all, driver.Finding{Name: "sandboxes", Level: driver.Fail, Detail: err.Error()})
		}
		defer done()

		return append(all, d.Check(ctx)...)
	}
}

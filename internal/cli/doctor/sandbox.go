package doctor

import (
	"context"

	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// Sandboxes asks the driver what it can do here. open makes the driver, which alone may fail, and says how to clean up after it.
func Sandboxes(allowWeak bool, open func() (d driver.Checker, done func(), err error)) Check {
	return func(ctx context.Context) []driver.Finding {
		var all []driver.Finding
		if allowWeak {
			all = append(all, driver.Finding{
				Name: "weak sandboxes", Level: driver.Warn,
				Detail: "allowed by configuration: where this machine cannot bound memory and CPU, agents run unbounded; run none you do not trust",
				Mend:   "unset sandbox.allow_weak (ROLLOUTD_ALLOW_WEAK_SANDBOX)",
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

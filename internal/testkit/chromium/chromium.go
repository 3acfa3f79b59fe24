// Package chromium drives a real Chromium, as a reader of the page does. It is a fixture: only tests import it.
package chromium

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Browser is one headless Chromium for the tests of a package, since it takes seconds of processor time to start. Its zero
// value starts it for the first tab.
type Browser struct {
	start sync.Once
	ctx   context.Context
	end   func()
	err   error
}

// Tab is a tab that a test has to itself.
type Tab struct {
	t        testing.TB
	patience time.Duration

	// Ctx is for steps of chromedp. It ends with the test.
	Ctx context.Context
}

// Open starts a Chromium for one test and opens its tab, as [Browser.Open] does.
func Open(t testing.TB, width, height int, patience time.Duration) Tab {
	t.Helper()

	var b Browser
	t.Cleanup(b.Close)

	return b.Open(t, width, height, patience)
}

// Open opens a tab in a window with cookies and storage of its own; the test waits for what it shows for at most
// patience. Without Chromium the test is skipped; on CI it fails.
func (b *Browser) Open(t testing.TB, width, height int, patience time.Duration) Tab {
	t.Helper()

	path, err := exec.LookPath("chromium")
	if err != nil {
		require.Empty(t, os.Getenv("CI"), "CI must have chromium")
		t.Skip("chromium is not installed")
	}

	b.start.Do(func() { b.launch(path, patience) })
	require.NoError(t, b.err)

	ctx, closeTab := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(closeTab)
	require.NoError(t, chromedp.Do(ctx))

	tab := Tab{t: t, patience: patience, Ctx: ctx}
	tab.resize(width, height)

	return tab
}

func (b *Browser) launch(path string, patience time.Duration) {
	options := append(
		chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // it visits only the tests' own servers
		// a tab, which has cookies and storage of its own, has its own process anyway: no other is kept ready
		chromedp.Flag("renderer-process-limit", "1"),
		chromedp.WSURLReadTimeout(patience),
	)
	alloc, end := chromedp.NewExecAllocator(context.Background(), options...)

	ctx, closeBrowser := chromedp.NewContext(alloc)
	b.ctx = ctx
	b.end = func() {
		closeBrowser()
		end()
	}

	// Its first context bounds its life.
	b.err = chromedp.Do(ctx)
}

// Close ends the Chromium, if a test started one, and removes its folder.
func (b *Browser) Close() {
	if b.end != nil {
		b.end()
	}
}

// resize sets the size of the window of the tab. An emulated size would stay in force where a test clicks with the mouse,
// which then misses what has scrolled.
func (c Tab) resize(width, height int) {
	c.t.Helper()

	tab := chromedp.FromContext(c.Ctx)
	found, err := cdp.Call(c.Ctx, tab.Browser, browser.GetWindowForTarget, browser.GetWindowForTargetParams{
		TargetID: tab.Target.TargetID,
	})
	require.NoError(c.t, err)

	_, err = cdp.Call(c.Ctx, tab.Browser, browser.SetWindowBounds, browser.SetWindowBoundsParams{
		WindowID: found.WindowID,
		Bounds:   &browser.Bounds{Width: int64(width), Height: int64(height)},
	})
	require.NoError(c.t, err)
}

// Run runs steps, which fail the test if they do not succeed in time.
func (c Tab) Run(steps ...chromedp.Action[chromedp.Void]) {
	c.t.Helper()

	ctx, cancel := context.WithTimeout(c.Ctx, 2*c.patience)
	defer cancel()

	require.NoError(c.t, chromedp.Do(ctx, steps...))
}

// Eventually waits until a script returns true.
func (c Tab) Eventually(script string) {
	c.t.Helper()

	ok := assert.Eventuallyf(c.t, func() bool {
		is, err := chromedp.Run(c.Ctx, chromedp.Evaluate[bool](script))
		return err == nil && is
	}, c.patience, 50*time.Millisecond, "%s", script)
	if ok {
		return
	}

	text, err := chromedp.Run(c.Ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText.slice(0, 4000)`))
	require.FailNow(c.t, "the page shows", "%s (error: %v)", text, err)
}

// Text returns a text as a literal of a script.
func Text(s string) string {
	quoted, _ := json.Marshal(s) // a string always encodes

	return string(quoted)
}

// For returns the tab for a subtest.
func (c Tab) For(t testing.TB) Tab {
	c.t = t

	return c
}

// Click clicks the link, button, tab or heading of a fold that shows a name or begins with it, when there is one.
func (c Tab) Click(name string) {
	c.t.Helper()
	c.Eventually(`((name) => {
		const all = [...document.querySelectorAll("a, button, summary, [role=tab]")].filter((e) => e.checkVisibility());
		const text = (e) => (e.innerText.trim() || e.getAttribute("aria-label") || "");
		const found = all.find((e) => text(e) === name) ?? all.find((e) => text(e).startsWith(name));
		found?.click();
		return Boolean(found);
	})(` + Text(name) + `)`)
}

// Sees waits until a text can be read in the window without scrolling.
func (c Tab) Sees(part string) {
	c.t.Helper()
	c.Eventually(`((part) => {
		const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let node = walk.nextNode(); node; node = walk.nextNode()) {
			const at = node.data.indexOf(part);
			if (at < 0 || !node.parentElement.checkVisibility()) continue;
			const range = new Range();
			range.setStart(node, at);
			range.setEnd(node, at + part.length);
			const box = range.getClientRects()[0];
			const top = box && document.elementFromPoint(box.left + 1, box.top + box.height / 2);
			if (top && node.parentElement.contains(top)) return true;
		}
		return false;
	})(` + Text(part) + `)`)
}

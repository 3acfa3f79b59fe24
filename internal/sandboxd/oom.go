package sandboxd

import "os"

// oomScore makes the kernel pick the sandbox's processes before sandboxd when memory runs out: killing pid 1 would take the
// whole sandbox, with the evidence of what happened.
//
// Lowering one's own score below 0 needs a capability that sandboxd lacks, but raising it and going back to 0 does not. So
// it is raised for the moment of each fork, and the child keeps what it was born with. The file is opened once, early:
// after PR_SET_DUMPABLE it belongs to root.
type oomScore struct{ file *os.File }

func openOOMScore() *oomScore {
	f, err := os.OpenFile("/proc/self/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return &oomScore{}
	}
	return &oomScore{file: f}
}

// raise raises the score until the returned function is called.
func (o *oomScore) raise() (lower func()) {
	if o.file == nil {
		return func() {}
	}
	o.set("500")
	return func() { o.set("0") }
}

// set ignores errors: without the file the sandbox works as well, with a worse choice of victim.
func (o *oomScore) set(score string) { _, _ = o.file.WriteAt([]byte(score), 0) }

package watch

// ShareOf is the part of a core above which an agent makes progress.
var ShareOf = shareOf

// UntilAnswered writes again while the store does not answer.
var UntilAnswered = untilAnswered

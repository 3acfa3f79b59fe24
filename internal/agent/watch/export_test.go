package watch

// ShareOf is the part of a core above which an agent makes progress.
var ShareOf = shareOf

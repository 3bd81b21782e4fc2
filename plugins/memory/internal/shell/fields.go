package shell

import "strings"

// readFields splits a line that was read as read does: into at most most fields (-1: any number), of which the last one has all that is
// left. Blanks of ifs count as one separator together and not at all at the ends; each other byte of it ends a field, an empty
// one too. Unless raw, a backslash takes from what follows all meaning.
func readFields(line, ifs string, most int, raw bool) []string {
	var text []byte
	var plain []bool // of a byte of text: a backslash came before it
	for i := 0; i < len(line); i++ {
		escaped := !raw && line[i] == '\\' && i+1 < len(line)
		if escaped {
			i++
		}
		text, plain = append(text, line[i]), append(plain, escaped)
	}
	separates := func(i int) bool { return !plain[i] && strings.IndexByte(ifs, text[i]) >= 0 }
	blank := func(i int) bool { return separates(i) && strings.IndexByte(" \t\n", text[i]) >= 0 }
	at, end := 0, len(text)
	for at < end && blank(at) {
		at++
	}
	for end > at && blank(end-1) {
		end--
	}
	next := func(from int) (to, after int) { // one field, and where the one after it begins
		to = from
		for to < end && !separates(to) {
			to++
		}
		after = to
		for after < end && blank(after) {
			after++
		}
		if after < end && separates(after) { // a blank around another separator belongs to it
			after++
			for after < end && blank(after) {
				after++
			}
		}
		return to, after
	}
	var fields []string
	for at < end {
		to, after := next(at)
		if len(fields) == most-1 && after < end {
			to, after = end, end
		}
		fields = append(fields, string(text[at:to]))
		at = after
	}
	return fields
}

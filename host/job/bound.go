package job

import "fmt"

// The parsers of HCL recurse as deep as a file nests, and a stack that is used up ends the program. So files are bounded before.
const (
	maxFile  = 256 << 10
	maxDepth = 2000
)

// bound says what is too much about a file, or nothing. It looks at bytes, strings and comments included, since only the
// parser could tell them apart; what people write stays far below.
func bound(src []byte) string {
	if len(src) > maxFile {
		return fmt.Sprintf("It has more than %d bytes.", maxFile)
	}
	var brackets, signs, conditions int
	for _, c := range src {
		switch c {
		case '(', '[', '{':
			brackets++
		case ')', ']', '}':
			brackets = max(0, brackets-1)
		case '!', '-':
			signs++
		case '?':
			conditions++
		case ' ', '\t', '\r', '\n':
			continue
		}
		if c != '!' && c != '-' {
			signs = 0
		}
		if max(brackets, signs, conditions) > maxDepth {
			return fmt.Sprintf("It nests deeper than %d levels.", maxDepth)
		}
	}
	return ""
}

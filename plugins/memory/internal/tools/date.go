package tools

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// zone is the time zone that TZ names: UTC unless it is one that Go has.
func (t *tool) zone() *time.Location {
	name := strings.TrimPrefix(t.getenv("TZ"), ":")
	if name == "" || strings.HasPrefix(name, "/") || strings.Contains(name, "..") {
		return time.UTC
	}
	// UTC0, JST-9 and the like: the sign is POSIX's, west is positive.
	if i := strings.IndexAny(name, "+-0123456789"); i >= 3 && !strings.Contains(name, "/") {
		hours, err := strconv.ParseFloat(name[i:], 64)
		if err == nil {
			return time.FixedZone(name[:i], int(-hours*3600))
		}
	}
	return time.UTC
}

func date(t *tool) int {
	given, args := t.options("ud:r:RI::", map[string]rune{"utc": 'u', "universal": 'u', "date": 'd', "reference": 'r', "rfc-email": 'R', "iso-8601": 'I'}, 1)
	at, zone := time.Now(), t.zone()
	format := "%a %b %e %H:%M:%S %Z %Y"
	for _, o := range given {
		if o.flag == 'u' {
			zone = time.UTC
		}
	}
	for _, o := range given {
		switch o.flag {
		case 'd':
			when, err := parseDate(o.value, at, zone)
			if err != nil {
				t.die(1, "invalid date %s: %v", quote(o.value), err)
			}
			at = when
		case 'r':
			info, err := t.FS.Stat(t.Dir, o.value)
			if err != nil {
				t.die(1, "%s: %s", o.value, reason(err))
			}
			at = info.ModTime()
		case 'R':
			format = "%a, %d %b %Y %H:%M:%S %z"
		case 'I':
			switch o.value {
			case "", "date":
				format = "%Y-%m-%d"
			case "seconds":
				format = "%Y-%m-%dT%H:%M:%S%:z"
			case "minutes":
				format = "%Y-%m-%dT%H:%M%:z"
			case "hours":
				format = "%Y-%m-%dT%H%:z"
			case "ns":
				format = "%Y-%m-%dT%H:%M:%S,%N%:z"
			default:
				t.die(1, "invalid argument %s for -I", quote(o.value))
			}
		}
	}
	if len(args) > 1 {
		t.die(1, "extra operand %s", quote(args[1]))
	}
	if len(args) == 1 {
		if !strings.HasPrefix(args[0], "+") {
			t.die(1, "cannot set date: the clock is the machine's")
		}
		format = args[0][1:]
	}
	t.printf("%s\n", strftime(format, at.In(zone)))
	return 0
}

// strftime formats with GNU's directives; an unknown one stays as it is.
func strftime(format string, at time.Time) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		start := i
		i++
		flag, colons, width := byte(0), 0, 0
		for i < len(format) && strings.IndexByte("-_0^#", format[i]) >= 0 {
			flag = format[i]
			i++
		}
		for i < len(format) && isDigit(format[i], 10) && width < 1000 {
			width = width*10 + int(format[i]-'0')
			i++
		}
		for i < len(format) && format[i] == ':' {
			colons++
			i++
		}
		if i < len(format) && (format[i] == 'E' || format[i] == 'O') {
			i++
		}
		if i >= len(format) {
			b.WriteString(format[start:])
			break
		}
		s, ok := directiveOf(format[i], at, flag, colons, width)
		if !ok {
			s = format[start : i+1]
		}
		if flag == '^' {
			s = strings.ToUpper(s)
		}
		b.WriteString(s)
	}
	return b.String()
}

func directiveOf(c byte, at time.Time, flag byte, colons, width int) (string, bool) {
	num := func(n, digits int, pad byte) string {
		switch flag {
		case '-':
			return strconv.Itoa(n)
		case '_':
			pad = ' '
		case '0':
			pad = '0'
		}
		s := strconv.Itoa(n)
		return strings.Repeat(string(pad), max(0, max(digits, width)-len(s))) + s
	}
	sub := func(format string) string { return strftime(format, at) }
	hour12 := (at.Hour()+11)%12 + 1
	year, week := at.ISOWeek()
	monday := (int(at.Weekday()) + 6) % 7
	switch c {
	case '%':
		return "%", true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	case 'a':
		return at.Format("Mon"), true
	case 'A':
		return at.Format("Monday"), true
	case 'b', 'h':
		return at.Format("Jan"), true
	case 'B':
		return at.Format("January"), true
	case 'c':
		return sub("%a %b %e %H:%M:%S %Y"), true
	case 'C':
		return num(at.Year()/100, 2, '0'), true
	case 'd':
		return num(at.Day(), 2, '0'), true
	case 'D', 'x':
		return sub("%m/%d/%y"), true
	case 'e':
		return num(at.Day(), 2, ' '), true
	case 'F':
		return sub("%Y-%m-%d"), true
	case 'g':
		return num(year%100, 2, '0'), true
	case 'G':
		return num(year, 4, '0'), true
	case 'H':
		return num(at.Hour(), 2, '0'), true
	case 'I':
		return num(hour12, 2, '0'), true
	case 'j':
		return num(at.YearDay(), 3, '0'), true
	case 'k':
		return num(at.Hour(), 2, ' '), true
	case 'l':
		return num(hour12, 2, ' '), true
	case 'm':
		return num(int(at.Month()), 2, '0'), true
	case 'M':
		return num(at.Minute(), 2, '0'), true
	case 'N':
		s := fmt.Sprintf("%09d", at.Nanosecond())
		if width > 0 && width < 9 {
			s = s[:width]
		}
		return s, true
	case 'p':
		return at.Format("PM"), true
	case 'P':
		return at.Format("pm"), true
	case 'q':
		return strconv.Itoa((int(at.Month())-1)/3 + 1), true
	case 'r':
		return sub("%I:%M:%S %p"), true
	case 'R':
		return sub("%H:%M"), true
	case 's':
		return strconv.FormatInt(at.Unix(), 10), true
	case 'S':
		return num(at.Second(), 2, '0'), true
	case 'T', 'X':
		return sub("%H:%M:%S"), true
	case 'u':
		return strconv.Itoa(monday + 1), true
	case 'U':
		return num((at.YearDay()+6-int(at.Weekday()))/7, 2, '0'), true
	case 'V':
		return num(week, 2, '0'), true
	case 'w':
		return strconv.Itoa(int(at.Weekday())), true
	case 'W':
		return num((at.YearDay()+6-monday)/7, 2, '0'), true
	case 'y':
		return num(at.Year()%100, 2, '0'), true
	case 'Y':
		return num(at.Year(), 4, '0'), true
	case 'z':
		switch colons {
		case 0:
			return at.Format("-0700"), true
		case 1:
			return at.Format("-07:00"), true
		case 2:
			return at.Format("-07:00:00"), true
		}
		return "", false
	case 'Z':
		return at.Format("MST"), true
	}
	return "", false
}

// parseDate parses what date -d and touch -d take: @SECONDS, now, today,
// yesterday, tomorrow, an ISO date with an optional time and zone, RFC 1123,
// and offsets such as "-2 days" or "3 hours ago" after any of these.
func parseDate(s string, now time.Time, zone *time.Location) (time.Time, error) {
	s = strings.TrimSpace(s)
	if rest, ok := strings.CutPrefix(s, "@"); ok {
		sec, frac, _ := strings.Cut(rest, ".")
		n, err := strconv.ParseInt(sec, 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("@ needs a number of seconds")
		}
		nsec := int64(0)
		if frac != "" {
			if nsec, err = strconv.ParseInt((frac + "000000000")[:9], 10, 64); err != nil {
				return time.Time{}, fmt.Errorf("@ needs a number of seconds")
			}
		}
		return time.Unix(n, nsec), nil
	}
	words := strings.Fields(s)
	for n := min(len(words), 7); n >= 0; n-- {
		at, ok := absolute(strings.Join(words[:n], " "), now, zone)
		if !ok {
			continue
		}
		return offset(at, words[n:])
	}
	return time.Time{}, fmt.Errorf("it is not of a known form")
}

func absolute(s string, now time.Time, zone *time.Location) (time.Time, bool) {
	if rest, ok := strings.CutPrefix(s, "UTC "); ok {
		s, zone = rest, time.UTC
	}
	now = now.In(zone)
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, zone)
	switch strings.ToLower(s) {
	case "", "now", "today":
		return now, true
	case "yesterday":
		return now.AddDate(0, 0, -1), true
	case "tomorrow":
		return now.AddDate(0, 0, 1), true
	case "midnight":
		return midnight, true
	}
	clean := strings.NewReplacer(" UTC", "Z", " Z", "Z", " GMT", "Z").Replace(s)
	for _, layout := range []string{
		"2006-01-02", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04:05", "2006-01-02 15:04:05",
		"2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z07:00", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 Z0700", "2006-01-02 15:04:05 Z07:00",
		"2006-01-02 15:04Z07:00", "2006-01-02Z07:00", "2006-01-02T15:04:05Z0700",
		"20060102", "20060102 15:04", "20060102 15:04:05", "01/02/2006", "1/2/2006",
		"2 Jan 2006", "Jan 2 2006", "2 January 2006", "January 2 2006", "2 Jan 2006 15:04:05", "Jan 2 2006 15:04:05", "Mon, 02 Jan 2006 15:04:05 -0700",
		"Mon, 02 Jan 2006 15:04:05Z07:00", "Mon, 2 Jan 2006 15:04:05 -0700", "Mon Jan 2 15:04:05 MST 2006", "Mon Jan 2 15:04:05 2006",
	} {
		if at, err := time.ParseInLocation(layout, clean, zone); err == nil {
			return at, true
		}
	}
	for _, layout := range []string{"15:04", "15:04:05"} {
		if at, err := time.Parse(layout, clean); err == nil {
			return midnight.Add(time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute + time.Duration(at.Second())*time.Second), true
		}
	}
	return time.Time{}, false
}

func offset(at time.Time, words []string) (time.Time, error) {
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		n, unit := 1, strings.ToLower(word)
		digits := strings.TrimLeft(unit, "+-0123456789")
		if number := unit[:len(unit)-len(digits)]; number != "" {
			v, err := strconv.Atoi(number)
			if err != nil {
				return at, fmt.Errorf("%q is not a number", number)
			}
			n, unit = v, digits
			if unit == "" {
				if len(words) == 0 {
					return at, fmt.Errorf("%q has no unit", word)
				}
				unit, words = strings.ToLower(words[0]), words[1:]
			}
		} else if unit == "next" || unit == "last" {
			if len(words) == 0 {
				return at, fmt.Errorf("%q has no unit", word)
			}
			if unit == "last" {
				n = -1
			}
			unit, words = strings.ToLower(words[0]), words[1:]
		}
		if len(words) > 0 && strings.EqualFold(words[0], "ago") {
			n, words = -n, words[1:]
		}
		switch strings.TrimSuffix(unit, "s") {
		case "sec", "second":
			at = at.Add(time.Duration(n) * time.Second)
		case "min", "minute":
			at = at.Add(time.Duration(n) * time.Minute)
		case "hour":
			at = at.Add(time.Duration(n) * time.Hour)
		case "day":
			at = at.AddDate(0, 0, n)
		case "week":
			at = at.AddDate(0, 0, 7*n)
		case "fortnight":
			at = at.AddDate(0, 0, 14*n)
		case "month":
			at = at.AddDate(0, n, 0)
		case "year":
			at = at.AddDate(n, 0, 0)
		default:
			return at, fmt.Errorf("%q is not a unit of time", unit)
		}
	}
	return at, nil
}

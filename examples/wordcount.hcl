# Counts the words of some texts: two steps side by side, and one that joins what they found.
job "wordcount" {
  input "text" {
    doc = "a directory of text files"
  }

  step "count" {
    inputs  = { text = input.text }
    outputs = ["counts"]
    run {
      path = "sh"
      args = ["-ec", "cat text/*.txt | tr -cs A-Za-z '\n' | tr A-Z a-z | sort | uniq -c | sort -k1,1nr -k2 > counts/words.txt; echo \"$(wc -l < counts/words.txt) different words\""]
    }
  }

  step "longest" {
    inputs  = { text = input.text }
    outputs = ["lines"]
    run {
      path = "sh"
      args = ["-ec", "cat text/*.txt | awk '{ print length($0) \": \" $0 }' | sort -rn | head -n 3 > lines/longest.txt; echo \"the longest of $(cat text/*.txt | wc -l) lines\""]
    }
  }

  step "report" {
    inputs = {
      counts = step.count.counts
      lines  = step.longest.lines
    }
    outputs = ["report"]
    run {
      path = "sh"
      args = ["-ec", "{ echo 'Most used:'; head -n 5 counts/words.txt; echo; echo 'Longest lines:'; cat lines/longest.txt; } > report/report.txt"]
    }
  }

  output "report" {
    from = step.report.report
  }
}

# Counts words: text is taken apart in memory, counted in a container, and the report is made in memory again.
job "mixed" {
  input "text" {
    doc = "a directory of text files"
  }
  input "image" {
    doc = "rootfs/, in which there are /bin/sh, sort, uniq and a user app, and metadata.json"
  }

  # By the runtime's name.
  step "words" {
    runtime = "memory"
    inputs  = { text = input.text }
    outputs = ["words"]
    run {
      path = "sh"
      args = ["-ec", "cat text/*.txt | tr -cs A-Za-z '\n' | tr A-Z a-z > words/all.txt; echo \"$(wc -l < words/all.txt) words\""]
    }
  }

  # By the platform. It is not root that writes the output.
  step "count" {
    platform = "linux"
    image    = input.image
    user     = "app"
    inputs   = { words = step.words.words }
    outputs  = ["counts"]
    run {
      path = "sh"
      args = ["-ec", "sort words/all.txt | uniq -c > counts/words.txt; echo \"counted by $(id -un) on $(uname -s)\""]
    }
  }

  # By a tag.
  step "report" {
    tags    = ["reports"]
    inputs  = { counts = step.count.counts }
    outputs = ["report"]
    run {
      path = "sh"
      args = ["-ec", "sort -k1,1nr -k2 counts/words.txt | head -n 10 > report/report.txt"]
    }
  }

  output "report" {
    from = step.report.report
  }
}

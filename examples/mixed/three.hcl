# The words of job.hcl, with three runtimes: text is taken apart in memory, counted in a container on a Garden server, and the report is made in a
# container on a node of a Nomad cluster. What comes out of one goes into the next, wherever that is.
job "three" {
  input "text" {
    doc = "a directory of text files"
  }
  input "image" {
    doc = "rootfs/, in which there are /bin/sh, sort, uniq and head, and metadata.json"
  }

  step "words" {
    runtime = "memory"
    inputs  = { text = input.text }
    outputs = ["words"]
    run {
      path = "sh"
      args = ["-ec", "cat text/*.txt | tr -cs A-Za-z '\n' | tr A-Z a-z > words/all.txt; echo \"$(wc -l < words/all.txt) words\""]
    }
  }

  step "count" {
    runtime = "garden"
    image   = input.image
    inputs  = { words = step.words.words }
    outputs = ["counts"]
    run {
      path = "sh"
      args = ["-ec", "sort words/all.txt | uniq -c > counts/words.txt; echo counted"]
    }
  }

  # The same image as on Garden.
  step "report" {
    runtime = "nomad"
    image   = input.image
    inputs  = { counts = step.count.counts }
    outputs = ["report"]
    run {
      path = "sh"
      args = ["-ec", "sort -k1,1nr -k2 counts/words.txt | head -n 10 > report/report.txt; echo reported"]
    }
  }

  output "report" {
    from = step.report.report
  }
}

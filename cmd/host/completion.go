package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/slipway-run/slipway/conformance"
	"github.com/slipway-run/slipway/host"
)

// completeWithin is how long the shell may be kept waiting for words that have to be looked up.
const completeWithin = 2 * time.Second

// withoutPackage is what the bash script needs of the package bash-completion, for shells that do not have that: words is the line's words, where
// "=" and ":" do not part them, and cword the index of that under the cursor.
const withoutPackage = `
if ! declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
    _get_comp_words_by_ref() {
        local i joined=() at=0 glue=
        for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
            if [[ ${COMP_WORDS[i]} =~ ^[=:]+$ && ${#joined[@]} -gt 0 ]]; then
                joined[${#joined[@]}-1]+=${COMP_WORDS[i]}
                glue=1
            elif [[ -n $glue ]]; then
                joined[${#joined[@]}-1]+=${COMP_WORDS[i]}
                glue=
            else
                joined+=("${COMP_WORDS[i]}")
            fi
            ((i == COMP_CWORD)) && at=$((${#joined[@]} - 1))
        done
        words=("${joined[@]}")
        cword=$at
        cur=${words[cword]}
        prev=
        ((cword > 0)) && prev=${words[cword - 1]}
        return 0
    }
fi
`

func (a *app) completionCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "completion bash|zsh|fish|powershell",
		Short: "Write a script that has a shell complete slipway's commands",
		Long: `Write a script that has a shell complete slipway's commands, flags, runs and cases.

  bash        source <(slipway completion bash)
  zsh         source <(slipway completion zsh)
  fish        slipway completion fish | source
  powershell  slipway completion powershell | Out-String | Invoke-Expression

In the shell's start file, this is so in each shell. Bash needs no further package.`,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("completion needs a shell: bash, zsh, fish or powershell")
			}
			return cobra.OnlyValidArgs(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			switch args[0] {
			case "zsh":
				return root.GenZshCompletion(a.out)
			case "fish":
				return root.GenFishCompletion(a.out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(a.out)
			}
			if _, err := a.out.Write([]byte(withoutPackage)); err != nil {
				return err
			}
			return root.GenBashCompletionV2(a.out, true)
		},
	}
	return c
}

// completions gives commands the words that their arguments and flags can be, as far as these can be known.
func (a *app) completions(root *cobra.Command) {
	runs := func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return a.runsLike(c.Context(), begun), cobra.ShellCompDirectiveNoFileComp
	}
	first := func(f cobra.CompletionFunc) cobra.CompletionFunc {
		return func(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return f(c, args, begun)
		}
	}
	values := func(words ...string) cobra.CompletionFunc {
		return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return words, cobra.ShellCompDirectiveNoFileComp
		}
	}
	flag := func(c *cobra.Command, name string, f cobra.CompletionFunc) {
		if c.Flags().Lookup(name) != nil || c.PersistentFlags().Lookup(name) != nil {
			_ = c.RegisterFlagCompletionFunc(name, f) // of a flag that is there
		}
	}
	flag(root, "log-level", values("debug", "info", "warn", "error", levelNone))
	for _, c := range root.Commands() {
		switch c.Name() {
		case "logs", "ps":
			c.ValidArgsFunction = first(runs)
		case "rm":
			c.ValidArgsFunction = func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
				return a.ownersLike(c.Context(), begun), cobra.ShellCompDirectiveNoFileComp
			}
		case "plugins":
			for _, c := range c.Commands() {
				c.ValidArgsFunction = first(func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
					return a.pluginsLike(c.Context(), begun), cobra.ShellCompDirectiveNoFileComp
				})
			}
		case "run":
			flag(c, "id", runs)
			flag(c, "abort", runs)
		case "conformance":
			for _, c := range c.Commands() {
				if c.Name() == "explain" {
					c.ValidArgsFunction = first(values(cases()...))
				}
				if c.Name() == "run" {
					flag(c, "only", values(cases()...))
					flag(c, "skip", values(cases()...))
				}
			}
		}
		flag(c, "output", values(formatText, formatJSON)) // of run and exec, NAME=DIR too
	}
}

// runsLike lists the runs of the state directory that the line names, if there is one.
func (a *app) runsLike(ctx context.Context, begun string) (out []string) {
	a.look(ctx, func(ctx context.Context, r *host.Records) error {
		rows, err := r.Runs(ctx)
		for _, row := range rows {
			if strings.HasPrefix(row.ID, begun) {
				out = append(out, row.ID)
			}
		}
		return err
	})
	return out
}

// ownersLike lists the owners, no runs, of containers that are not over.
func (a *app) ownersLike(ctx context.Context, begun string) (out []string) {
	a.look(ctx, func(ctx context.Context, r *host.Records) error {
		rows, _, err := r.Containers(ctx, begun)
		for _, row := range rows {
			if !row.Over() && row.Owner != "" && host.RunOf(row.Owner) == "" {
				out = append(out, row.Owner)
			}
		}
		return err
	})
	return out
}

// pluginsLike lists the plugins of the daemon that has the state directory open.
func (a *app) pluginsLike(ctx context.Context, begun string) (out []string) {
	if a.stateDir == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	d, err := a.dial(ctx, completeWithin)
	if err != nil || d == nil {
		return nil
	}
	defer d.Close()
	plugins, _ := d.Plugins(ctx, 0) // none, if it does not answer
	for _, p := range plugins {
		if strings.HasPrefix(p.Name, begun) {
			out = append(out, p.Name)
		}
	}
	return out
}

// look reads the records of the state directory that the line names. A shell that asks for words has no place for errors: there are none then.
func (a *app) look(ctx context.Context, f func(context.Context, *host.Records) error) {
	if a.stateDir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	r, err := a.openRecords(ctx)
	if err != nil {
		return
	}
	defer r.Close()
	_ = f(ctx, r)
}

func cases() []string {
	var out []string
	for _, c := range conformance.Cases() {
		out = append(out, c.ID)
	}
	return out
}

# Starts one command in a container and tells how it ended. This is what Node cannot do: arguments that are not UTF-8, real pipes, the
# kernel's own answer to exec, and a child in a container's namespace of processes, which Node would have to enter itself.
# It talks on descriptor 3: it is given a length and that many bytes, which are fields with a NUL after each; then it says
# "pipes PID-FDS", waits for one byte while Node opens the ends that it wants, and says "started PID" or "failed WHY", and "exit STATUS".
use strict;
use Errno qw(ENOEXEC);

open(my $talk, '+<&=', 3) or die "descriptor 3: $!";
fcntl($talk, 2, 1); # F_SETFD, FD_CLOEXEC: the command has 0, 1 and 2 only
opendir(my $fds, '/proc/self/fd');
for my $number (grep { /^\d+$/ && $_ > 3 } readdir($fds)) { # what whoever started the host has left open
    open(my $file, '<&=', $number) or next;
    close($file);
}

sub take {
    my ($size) = @_;
    my $got = '';
    while (length($got) < $size) {
        sysread($talk, $got, $size - length($got), length($got)) or exit 1;
    }
    return $got;
}

# fits says whether the kernel can execute a program. It is asked only because the C library has a shell try what the kernel refuses.
sub fits {
    open(my $file, '<', $_[0]) or return 1; # the kernel says why
    sysread($file, my $head, 20);
    return 1 if $head =~ /^#!/ || -d $file;
    open(my $own, '<', '/proc/self/exe') or return 1;
    sysread($own, my $right, 20);
    return $head =~ /^\x7fELF/ && length($head) == 20 && (substr($head, 4, 2) . substr($head, 18) eq substr($right, 4, 2) . substr($right, 18) || substr($head, 18) eq "\3\0");
}

sub tell_host { syswrite($talk, join(' ', @_) . "\n") }

my ($root, $dir, $count, @rest) = split(/\0/, take(unpack('N', take(4))), -1);
pop @rest; # what comes after the last NUL
my @command = splice(@rest, 0, $count);
chroot($root) && chdir('/') or die "the container's root: $!";

pipe(my $in,     my $stdin)  or die "pipe: $!";
pipe(my $stdout, my $out)    or die "pipe: $!";
pipe(my $stderr, my $err)    or die "pipe: $!";
pipe(my $answer, my $refuse) or die "pipe: $!"; # closed by exec, or told why there was none
tell_host('pipes', fileno($stdin), fileno($stdout), fileno($stderr));
take(1);
close($_) for $stdin, $stdout, $stderr;

my $pid = fork() // die "fork: $!";
if ($pid == 0) {
    setpgrp(0, 0);
    umask(0022);
    my $made = '';
    for my $part (grep { length } split(m{/}, $dir)) {
        $made .= "/$part";
        mkdir($made, 0755);
    }
    if (chdir($dir)) {
        open(STDIN, '<&', $in);
        open(STDOUT, '>&', $out);
        open(STDERR, '>&', $err);
        %ENV = map { /^([^=]+)=(.*)$/s ? ($1, $2) : () } @rest;
        my ($program) = $command[0] =~ m{/} ? () : grep { -f && -x } map { ($_ eq '' ? '.' : $_) . "/$command[0]" } split(/:/, $ENV{PATH}, -1);
        $program //= $command[0];
        fits($program) ? exec { $program } @command : ($! = ENOEXEC);
        my $why = $!{ENOENT} && $program =~ m{/} && lstat($program) ? 'ENOEXEC' # its interpreter is missing
            : (grep { $!{$_} } qw(ENOENT ENOTDIR EACCES ENOEXEC E2BIG ELOOP ENAMETOOLONG))[0] // "$!";
        syswrite($refuse, $why);
    } else {
        syswrite($refuse, 'dir');
    }
    kill('KILL', $$);
}
close($_) for $in, $out, $err, $refuse;
if (sysread($answer, my $why, 1000)) {
    waitpid($pid, 0);
    tell_host('failed', $why);
    exit 0;
}
tell_host('started', $pid);
waitpid($pid, 0);
tell_host('exit', $?);

# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why Ansible can't work on a host: messages of Ansible, OpenSSH, sudo, su and shells, with one remedy for each cause.

The first cause whose pattern is found counts. Those of becoming root come before those of SSH, as ansible-core reports
some of them as a failed connection. Named groups of a pattern fill the remedy.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PYTHON = "3.9"
_ROOT = "Root is required to install packages and services"
_NO_SHELL = "Nothing can be done on the host"
# By sudo-rs, which wraps the prompt that Ansible passes: https://github.com/ansible/ansible/issues/85837
_SUDO_RS = (
    "Ubuntu 25.10 and later use sudo-rs, and ansible-core up to 2.21 does not recognize its prompt for a password"
)
_SUDO_WS = (
    "Set ansible_become_exe=sudo.ws for the host, which is the original sudo (package sudo), and provide the password "
    "(-K); or allow sudo without a password; or use a later ansible-core that recognizes sudo-rs"
)
_PLACEHOLDERS = {
    "login": "USER@ADDRESS",
    "address": "ADDRESS",
    "user": "a user with sudo privileges",
    "jump": "JUMPHOST",
}
# Bounded, so that a long word without an end takes no time.
_LOGIN = r"(?P<login>[\w.+-]{1,64}@[\w.:%-]{1,255})"
_ADDRESS = r"(?P<address>[\w.:%-]{0,255}\w)"


@dataclass(frozen=True)
class Cause:
    """``only_unreachable``: programs on the host print the same about other things."""

    kind: str
    pattern: re.Pattern[str]
    what: str
    where: str
    why: str
    do: str
    only_unreachable: bool = False

    def filled(self, text: str, match: re.Match[str], host: str) -> str:
        """Return ``where`` or ``do`` with what the message names, or placeholders."""
        found = {name.partition("_")[0]: value for name, value in match.groupdict().items() if value}
        return text.format_map({**_PLACEHOLDERS, "host": host, **found})


def _cause(kind: str, pattern: str, what: str, where: str, why: str, do: str, **more: bool) -> Cause:
    return Cause(kind, re.compile(pattern, re.DOTALL), what, where, why, do, **more)


_BECOME = (
    _cause(
        "sudo_rs",
        r"\[sudo: |interactive authentication is required|[Aa] terminal is required to authenticate",
        "Ansible can't become root, because the host's sudo is sudo-rs",
        "sudo on the host, ansible_become_exe",
        _SUDO_RS,
        _SUDO_WS,
    ),
    _cause(
        "become_prompt_disturbed",
        r"(?:privilege escalation prompt|become success).*(?:\x1b|\\u001b|\\x1b)[\[\]]",
        "Ansible can't become root, because the user's shell prints control sequences before the password prompt",
        "login shell of the user on the host",
        _ROOT,
        "Give the user a plain login shell (chsh -s /bin/bash), and let its startup files print nothing if the shell "
        "is not interactive",
    ),
    _cause(
        "become_password_wrong",
        r"Incorrect \S+ password|Sorry, try again|incorrect (?:password|authentication) attempt|Authentication failed, "
        r"try again|su: Authentication failure|Duplicate become password prompt",
        "Ansible can't become root, because the password is wrong",
        "--ask-become-pass, ansible_become_password",
        _ROOT,
        "Give the password that the user has on this host: with -K if all hosts have the same one, otherwise as "
        "ansible_become_password of each host, encrypted with Ansible Vault",
    ),
    _cause(
        "become_password_missing",
        r"Missing \S+ password|a password is required|terminal is required to read the password|no askpass program",
        "Ansible can't become root, because sudo asks for a password",
        "--ask-become-pass, ansible_become_password",
        _ROOT,
        "Provide the password (-K, which is --ask-become-pass, or ansible_become_password), or allow the user to use "
        "sudo without a password",
    ),
    _cause(
        "become_not_allowed",
        r"not in the sudoers file|may not run |is not allowed to (?:run|execute|authenticate)|I'm afraid I can't do "
        r"that|not allowed to run sudo|su: Permission denied",
        "Ansible can't become root, because sudo does not allow it to the user",
        "sudoers on the host, ansible_user",
        _ROOT,
        "As root on the host, add the user to the group sudo (usermod -aG sudo USER), or set ansible_user to a user "
        "that may use sudo",
    ),
    _cause(
        "become_needs_terminal",
        r"must have a tty to run sudo|must be run from a terminal",
        "Ansible can't become root, because sudo requires a terminal",
        "requiretty in the sudoers of the host",
        _ROOT,
        "Remove `Defaults requiretty` from sudoers (visudo), or run with ANSIBLE_PIPELINING=false",
    ),
    _cause(
        "become_program_missing",
        r"\b(?:sudo|sudo\.ws|su|doas|pkexec): (?:command )?not found|\b(?:sudo|sudo\.ws|doas): No such file",
        "Ansible can't become root, because the host lacks the program for it",
        "ansible_become_exe, ansible_become_method",
        _ROOT,
        "As root on the host, install it (apt-get install sudo), or connect as root (ansible_user=root), or set "
        "ansible_become_method=su with root's password",
    ),
    _cause(
        "become_blocked",
        r"owned by uid 0 and have the setuid bit|effective uid is not 0|no new privileges",
        "Ansible can't become root, because sudo has no setuid bit or may not use it",
        "sudo on the host",
        _ROOT,
        "Reinstall the package (apt-get install --reinstall sudo); in a container, connect as root (ansible_user=root)",
    ),
    _cause(
        "sudoers_wrong",
        r"no valid sudoers sources|sudoers\S*:\d+(?::\d+)?: |(?:parse|syntax) error (?:in|near) \S*(?:sudoers| line)",
        "Ansible can't become root, because the host's sudoers can't be read",
        "/etc/sudoers, /etc/sudoers.d",
        _ROOT,
        "As root on the host, find the line with `visudo -c` and correct it",
    ),
    _cause(
        "become_unprivileged",
        r"becoming an unprivileged user|chmod: invalid mode: .A\+user",
        "Ansible becomes a user other than root",
        "ansible_become_user",
        _ROOT,
        "Remove ansible_become_user from the inventory, so that Ansible becomes root",
    ),
)
_ACCOUNT = (
    _cause(
        "account_expired",
        r"[Aa]ccount (?:has |is )?expired|account validation fail",
        "The user's account on the host has expired or is locked",
        "ansible_user",
        _NO_SHELL,
        "As root on the host: chage --expiredate -1 USER, and usermod --unlock USER if it is locked",
    ),
    _cause(
        "password_expired",
        r"[Pp]assword (?:has |is |or account is )?expired|[Pp]assword change required|required to change your "
        r"password|change your password (?:immediately|now)|authentication token (?:is no longer valid|expired)",
        "The user's password on the host has expired",
        "ansible_user",
        "The host starts no program for the user until the password is changed",
        "Log in once with ssh and choose a new password; `chage --maxdays -1 USER` as root keeps it from expiring "
        "again",
    ),
    _cause(
        "login_shell",
        r"account is currently not available|[Tt]his service allows sftp connections only|PTY allocation request "
        r"failed on channel 0",
        "The user can't start a shell on the host",
        "ansible_user, login shell",
        _NO_SHELL,
        "Set ansible_user to a user with a shell, or give this one a shell (usermod --shell /bin/bash USER)",
    ),
    _cause(
        "host_is_booting",
        r"[Ss]ystem is booting up|[Ss]ystem is going down|pam_nologin",
        "The host is starting or shutting down, and does not let users in",
        "host",
        _NO_SHELL,
        "Wait until it has started, and run again; a file /run/nologin or /etc/nologin that stays must be removed",
    ),
)
_PROMPT = (
    _cause(
        "become_prompt_missing",
        r"Timeout .{0,20}waiting for privilege escalation prompt|Timed out waiting for become success",
        "Ansible can't become root, because no password prompt that it recognizes came in time",
        "sudo on the host, ansible_become_exe",
        _SUDO_RS,
        _SUDO_WS
        + ". On other systems, log in and see what `sudo -v` prints and how long it takes; ansible_ssh_timeout=60 "
        "waits longer",
    ),
)
_SSH_SETUP = (
    _cause(
        "sshpass_missing",
        r"install the sshpass program|No such file or directory: b?'sshpass'",
        "SSH passwords need the program sshpass, which the controller lacks",
        "controller",
        "Ansible passes an SSH password only through sshpass",
        "Install it on the controller (apt-get install sshpass), or use a key: ssh-copy-id {login}, then leave out "
        "ansible_password and --ask-pass",
    ),
    _cause(
        "ssh_missing",
        r"No such file or directory: b?'ssh'|Unable to execute ssh command line",
        "The controller has no program ssh",
        "controller",
        _NO_SHELL,
        "Install it on the controller (apt-get install openssh-client)",
    ),
    _cause(
        "control_path",
        r"too long for Unix domain socket|ControlPath too long|[Cc]annot write to ControlPath|unix_listener: cannot "
        r"bind",
        "SSH can't create the socket through which connections are shared",
        "control path of SSH on the controller",
        "The path of such a socket has at most about 100 characters, and its directory must be writable",
        "Choose a short directory of your own: export ANSIBLE_SSH_CONTROL_PATH_DIR=/tmp/ssh-$USER",
    ),
    _cause(
        "ssh_config_wrong",
        r"Bad configuration option|bad configuration options|Bad owner or permissions on|keyword .{1,40} extra "
        r"arguments|command-line line \d+: ",
        "SSH on the controller does not accept its configuration",
        "~/.ssh/config, ansible_ssh_common_args, ansible_ssh_extra_args",
        "SSH stops before it connects",
        "Correct the option or file that the message names; ~/.ssh/config must belong to you, with mode 0600",
    ),
    _cause(
        "host_key_changed",
        r"(?:IDENTIFICATION HAS CHANGED|POSSIBLE DNS SPOOFING).*?ost key for " + _ADDRESS + r" has "
        r"changed|IDENTIFICATION HAS CHANGED|POSSIBLE DNS SPOOFING",
        "The host's SSH key is not the one that the controller knows",
        "known_hosts on the controller",
        "The machine was reinstalled, its address belongs to another machine now, or the connection is intercepted",
        "If you know why it changed, compare the new fingerprint on the machine's console, and: ssh-keygen -R "
        "{address}; ssh {address}",
    ),
    _cause(
        "host_key_unknown",
        r"No \S+ host key is known for \[?" + _ADDRESS + r"|Host key verification failed|Host Key checking is "
        r"enabled|authenticity of host .{1,80} can't be established",
        "The controller does not know the host's SSH key",
        "known_hosts on the controller",
        "SSH connects only to hosts whose key is known",
        "Connect once with `ssh {address}`, and compare the fingerprint before you accept the key; for many hosts, "
        "collect the keys over a trusted network: ssh-keyscan {address} >> ~/.ssh/known_hosts",
    ),
    _cause(
        "jump_host_forwarding",
        r"stdio forwarding failed|open failed: (?:administratively prohibited|connect failed)",
        "The jump host lets the controller in, but does not connect it to the host",
        "ansible_host, ansible_port, ProxyJump or ProxyCommand in ansible_ssh_common_args or ~/.ssh/config",
        _NO_SHELL,
        "Check from the jump host that it reaches {host} (ansible_host and ansible_port as seen from there), and that "
        "it allows forwarding (AllowTcpForwarding yes in its sshd_config)",
        only_unreachable=True,
    ),
    _cause(
        "jump_host",
        r"\A(?=(?:.*?(?:resolve hostname|connect to host|Connection (?:closed|reset) by) "
        r"(?P<jump>(?!UNKNOWN)[\w.:%-]{0,255}\w))?)(?=(?:.*?(?P<jump_login>[\w.+-]{1,64}@[\w.%-]{1,255}): Permission "
        r"denied)?).*(?:UNKNOWN port 65535|port -1\b|[Pp]roxy ?(?:command|jump)|kex_exchange_identification: "
        r"Connection closed by remote host.*Permission denied)",
        "The jump host does not let the controller through",
        "ProxyJump or ProxyCommand in ansible_ssh_common_args or ~/.ssh/config",
        _NO_SHELL,
        "Log in to the jump host by hand (ssh {jump}): its name, your user there, your key and its host key must be "
        "right",
        only_unreachable=True,
    ),
    _cause(
        "key_file_open",
        r"UNPROTECTED PRIVATE KEY|bad permissions",
        "SSH ignores the private key, because other users can read it",
        "private key on the controller",
        "The key is not used to log in",
        "chmod 600 KEYFILE; on a Windows drive in WSL this has no effect, so copy the key to ~/.ssh first",
    ),
    _cause(
        "key_file_missing",
        r"no such identity: .{1,300}: No such file|[Ii]dentity file \S+ not accessible",
        "The private key file does not exist on the controller",
        "ansible_ssh_private_key_file",
        "SSH has no other key that the host accepts",
        "Correct the path; a relative one counts from the directory in which you run Ansible",
    ),
    _cause(
        "key_file_unreadable",
        r"Load key .{1,300}: (?:invalid format|error in libcrypto|[Pp]ermission denied)|invalid privatekey|not a "
        r"valid \S+ private key",
        "The private key can't be read",
        "ansible_ssh_private_key_file",
        "SSH has no other key that the host accepts",
        "Name the private key, not its .pub, of a file that you may read, with Unix line ends and a line break at its "
        "end; `ssh-keygen -y -f KEYFILE` shows whether it is valid",
    ),
    _cause(
        "key_locked",
        r"incorrect passphrase|[Ee]nter passphrase for|signing failed|agent refused operation|read_passphrase",
        "The private key is locked with a passphrase",
        "SSH agent on the controller",
        "Ansible can't ask for the passphrase",
        "Unlock it for this session: eval $(ssh-agent); ssh-add KEYFILE",
    ),
    _cause(
        "too_many_keys",
        r"Too many authentication failures",
        "The host ends the connection, because SSH offers too many keys",
        "ansible_ssh_private_key_file",
        "Most hosts accept 6 attempts",
        "Set ansible_ssh_private_key_file and ansible_ssh_common_args='-o IdentitiesOnly=yes', so that only this key "
        "is offered",
    ),
    _cause(
        "root_login_refused",
        r"log ?in as the user \W?(?P<user>[a-z_][\w-]*)|log ?in as the \W?(?P<user_2>[a-z_][\w-]*)\W? "
        r"user|\broot@[\w.:%-]+: Permission denied|(?i:root login (?:is )?(?:refused|disabled|not "
        r"(?:permitted|allowed)))",
        "The host does not let root log in with this key or password",
        "ansible_user",
        "Cloud images and the defaults of Debian and Ubuntu keep root from logging in with a password, or at all",
        "Set ansible_user to {user}; the playbooks become root with sudo",
    ),
    _cause(
        "ssh_password_wrong",
        r"Invalid/incorrect (?:username/)?password|Authentication failed\.|sshpass error",
        "The host refuses the user or the SSH password",
        "ansible_user, ansible_password",
        _NO_SHELL,
        "Check both with ssh {login}; better, use a key: ssh-copy-id {login}",
    ),
    _cause(
        "ssh_key_refused",
        r"(?:" + _LOGIN + r": Permission denied|Permission denied \()|no mutual signature|No (?:supported|more) "
        r"authentication methods",
        "The host accepts none of the controller's SSH keys for this user",
        "ansible_user, ansible_ssh_private_key_file",
        _NO_SHELL,
        "Check ansible_user, and add your key to the host: ssh-copy-id {login}",
        only_unreachable=True,
    ),
    _cause(
        "ssh_algorithms",
        r"no matching (?:host key type|key exchange method|cipher|MAC) found",
        "SSH on the controller and on the host have no algorithm in common",
        "OpenSSH on both sides",
        _NO_SHELL,
        "Update OpenSSH on the older side; until then, allow the algorithm that the message offers, such as "
        "ansible_ssh_common_args='-o HostKeyAlgorithms=+ssh-rsa'",
    ),
)
_HOST = (
    _cause(
        "host_disk_full",
        r"No space left on device|[Dd]isk quota exceeded|write error: No space",
        "The host's disk is full",
        "disk of the host, where /tmp and the user's home are",
        "Ansible can't copy its modules to the host",
        "Free space or inodes on the host (df -h /tmp ~; df -i /tmp ~), or set ansible_remote_tmp to a directory on "
        "another disk",
    ),
    _cause(
        "host_read_only",
        r"[Rr]ead-only file ?system",
        "A file system of the host is read-only",
        "disk of the host, where /tmp and the user's home are",
        "Ansible can't copy its modules to the host; the kernel makes a disk with errors read-only",
        "Look for the cause (dmesg | grep -i remount; findmnt -o TARGET,OPTIONS), repair the disk, and reboot",
    ),
    _cause(
        "host_out_of_memory",
        r"[Cc]annot allocate memory|[Mm]emory exhausted|oom[-_ ]kill|MemoryError|[Oo]ut of memory|\bKilled\b|\(exit "
        r"status (?:137|-9)\)|command terminated by signal 9",
        "The host has run out of memory",
        "memory of the host",
        "The kernel ends programs, among them those of Ansible",
        "See what uses it (free -m; dmesg | grep -i 'out of memory'), stop that program, or use a machine with more "
        "memory",
    ),
    _cause(
        "host_process_limit",
        r"(?<!port \d\d: )(?<!port \d{4}: )[Rr]esource temporarily unavailable|can't start new thread|"
        r"[Tt]oo many open files",
        "The host starts no more programs for the user",
        "limits of the user on the host",
        "Ansible starts programs on the host",
        "Raise the limit (ulimit -u, ulimit -n, /etc/security/limits.conf), or stop what uses it up",
    ),
    _cause(
        "remote_tmp",
        r"[Ff]ailed to create (?:a )?temporary directory|remote temporary directory|mkdir: can(?:not|'t) create "
        r"directory|(?:\.ansible/tmp|ansible-tmp-)\S{0,200}(?: .{0,80})?: [Pp]ermission denied",
        "The host can be reached, but Ansible can't create its temporary directory",
        "home of the user on the host, ansible_remote_tmp",
        "Ansible copies its modules there",
        "Let the home belong to the user and be writable (ls -ld ~; df -h ~ /tmp), or set "
        "ansible_remote_tmp=/tmp/.ansible-USER; a file system mounted with noexec can't be used",
    ),
)
_NETWORK = (
    _cause(
        "host_name_unknown",
        r"(?:[Cc]ould not resolve hostname|unable to resolve host(?:name)?) \[?" + _ADDRESS + r"|Name or service not "
        r"known|[Nn]odename nor servname|Temporary failure in name resolution",
        "The host can't be reached",
        "ansible_host",
        "Its name is not in DNS or /etc/hosts of the controller",
        "Set ansible_host of {host} to its address, or correct the name",
        only_unreachable=True,
    ),
    _cause(
        "ssh_refused",
        r"Connection refused|Unable to connect to port",
        "The host can't be reached",
        "ansible_host, ansible_port",
        "The host answers, but no SSH server listens there, or a firewall rejects it",
        "Check ansible_port, and on the host: systemctl status ssh; apt-get install openssh-server",
        only_unreachable=True,
    ),
    _cause(
        "host_silent",
        r"timed out(?! during banner)|No route to host|port \d+: Resource temporarily unavailable|[Nn]etwork is "
        r"unreachable|Host is (?:down|unreachable)|Connection timeout",
        "The host can't be reached",
        "ansible_host, ansible_port",
        "Nothing answers at this address: the machine is off, its address is another one, or a firewall is in the way",
        "Check that it runs and that ansible_host is right, and let this controller through to its SSH port (firewall, "
        "security group, VPN)",
        only_unreachable=True,
    ),
    _cause(
        "ssh_closed",
        r"[Ss]ession open refused|Timeout, server \S+ not responding|[Cc]onnection (?:to \S+ "
        r")?(?:closed|reset)|[Bb]roken pipe|banner exchange|kex_exchange_identification|Shared connection to|Data "
        r"could not be sent",
        "The host can't be reached",
        "SSH server of the host",
        "It limits new connections, has blocked this controller, or is not an SSH server",
        "Read journalctl -u ssh on the host (MaxStartups, fail2ban, AllowUsers), check ansible_port, and try with "
        "--forks 5",
        only_unreachable=True,
    ),
    _cause(
        "controller_worker_lost",
        r"worker was found in a dead state|worker process .{0,60}(?:died|exited|killed)",
        "Ansible on the controller lost the process that worked on the host",
        "memory of the controller",
        "The controller's kernel ends programs when memory is short; the host itself may be fine",
        "Run with fewer processes (--forks 5), or on a machine with more memory",
    ),
)
_VARIABLES = (
    _cause(
        "variable_undefined",
        r"'(?P<name>[A-Za-z_]\w*)' is undefined",
        "A variable that the inventory refers to is not defined",
        "{name}",
        "Ansible can't connect to the host without its value",
        "Define {name} in the inventory, or give the file that defines it (-e @FILE)",
    ),
    _cause(
        "variable_undefined",
        r"(?:object of type '\w+'|'dict object') has no (?:attribute|element) '?(?P<name>[\w.-]+)'?",
        "A template of the inventory refers to what does not exist",
        "{name}",
        "Ansible can't connect to the host without its value",
        "Correct the name {name} in the inventory's templates, or define it",
    ),
    _cause(
        "plugin_unknown",
        r"(?:become method specified, could not find matching plugin: |the connection plugin )'(?P<name>[\w.-]+)'",
        "The inventory names a plugin that Ansible does not have",
        "ansible_connection, ansible_become_method",
        "Ansible can't work on the host without it",
        "Correct {name} (ssh and sudo are the defaults), or install the collection with this plugin",
    ),
    _cause(
        "vault_locked",
        r"no vault secrets|vault secrets? (?:were )?(?:not )?found|[Dd]ecryption failed|undecryptable|vault exception",
        "A variable is encrypted with Ansible Vault, and the password is missing or wrong",
        "--ask-vault-pass, --vault-password-file",
        "Ansible can't read its value",
        "Run again with --ask-vault-pass or --vault-password-file FILE",
    ),
)
_PROGRAMS = (
    _cause(
        "python_missing",
        r"minimum of Python|[Nn]o python interpreter|python\S*: (?:not found|No such|command not found)|interpreter "
        r"\S{1,200} was not found",
        "Ansible finds no Python that it can use",
        "host",
        f"Ansible's modules need Python {PYTHON} or newer on the host",
        "Install Python (apt-get install python3), or set ansible_python_interpreter to its path",
    ),
    _cause(
        "program_ip_missing",
        r"there is no program ip\b",
        "The host's network can't be read",
        "host",
        "This collection and kubeadm read addresses and routes with the program ip",
        "Install it (apt-get install iproute2)",
    ),
    _cause(
        "become_refused",
        r"(?:^|[\s/])(?:sudo|su|doas)(?:\.ws)?: (?!unable to resolve host)|become password|waiting for become success",
        "Ansible can't become root",
        "host",
        _ROOT,
        "Log in as the user, and see what `sudo -v` prints; allow the user to use sudo, and provide the password (-K) "
        "if sudo asks for one",
    ),
)
CAUSES = (*_BECOME, *_ACCOUNT, *_PROMPT, *_SSH_SETUP, *_HOST, *_NETWORK, *_VARIABLES, *_PROGRAMS)

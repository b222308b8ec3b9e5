# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why Ansible can't access a host: messages of Ansible, OpenSSH, sudo, su and shells, with a remedy for each cause.

The first cause with a matching pattern counts. Causes of becoming root come before those of SSH, because ansible-core
reports some of them as a failed connection. Named groups of a pattern are inserted into the remedy.

Patterns match within lines: ``.`` does not match a line break, ``^`` is the start of a message. A banner of the host
may contain anything, so patterns of common words include the start of the line or the name of the program.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

PYTHON = "3.9"
UNREACHABLE, UNREADABLE = "The host can't be reached", "The host can't be read"
_ROOT = "Root is required to install packages and services"
_NO_SHELL = "Nothing can be done on the host"
# By sudo-rs, which wraps Ansible's prompt: https://github.com/ansible/ansible/issues/85837
_SUDO_RS = (
    "Ubuntu 25.10 and later use sudo-rs, and ansible-core up to 2.21 does not recognize its prompt for a password"
)
_SUDO_WS = (
    "Set ansible_become_exe=sudo.ws for the host, which is the original sudo (package sudo), and provide the password "
    "(-K); or allow sudo without a password; or use a later ansible-core that recognizes sudo-rs"
)
_ALLOW_SUDO = (
    "As root on the host, add the user to the group sudo (usermod -aG sudo USER), or set ansible_user to a user that "
    "may use sudo"
)
_PLACEHOLDERS = {
    "login": "USER@ADDRESS",
    "address": "ADDRESS",
    "known": "ADDRESS",
    "port": "",
    "file": "/etc/sudoers",
    "user": "a user with sudo privileges",
    "jump": "JUMPHOST",
}
# Bounded, so that matching a very long word takes little time.
_LOGIN = r"(?P<login>[\w.+-]{1,64}@[\w.:%-]{1,255})"
_ADDRESS = r"(?P<address>[\w.:%-]{0,255}\w)"
# As in known_hosts: with the port, unless it is 22.
_KNOWN = r"(?P<known>\[(?P<address>[\w.:%-]{1,255})\]:(?P<port>\d{1,5})|(?P<address_2>[\w.:%-]{0,255}\w))"
# Prefixes of messages from SSH, programs and shells.
_FROM_SUDO = r"(?:^|\b(?:sudo|sudo\.ws|sudo-rs|su|doas): )"
_PROGRAM = r"(?:sudo|sudo\.ws|su|doas|pkexec)"
_NOT_FOUND = r"(?:[Cc]ommand |inaccessible or )?not found"
_NOT_FOUND_ZSH = r"(?:command not found|no such file or directory|bad interpreter|Unknown command):? '?(?:/\S{0,200}/)?"
_LOGIN_REFUSED = re.compile(r"Permission denied \((?:publickey|password|keyboard-interactive|gssapi|hostbased|none)")


@dataclass(frozen=True)
class Cause:
    """A cause; ``only_unreachable``: programs on the host print the same message for other reasons.

    ``after_login``: printed only to users that SSH has authenticated; before that, a banner may contain the same words.
    """

    kind: str
    pattern: re.Pattern[str]
    what: str
    where: str
    why: str
    do: str
    only_unreachable: bool = False
    after_login: bool = False

    def find(self, text: str, unreachable: bool) -> re.Match[str] | None:
        """Return the match in the lines of a failure, None if it has another cause."""
        if (self.only_unreachable and not unreachable) or (self.after_login and _LOGIN_REFUSED.search(text)):
            return None
        return self.pattern.search(text)

    def filled(self, text: str, match: re.Match[str], host: str) -> str:
        """Return ``where`` or ``do`` with the names from the message, or placeholders."""
        found = {name.partition("_")[0]: value for name, value in match.groupdict().items() if value}
        if "port" in found:
            found["port"] = f"-p {found['port']} "
        return text.format_map({**_PLACEHOLDERS, "host": host, **found})


def _cause(kind: str, pattern: str, what: str, where: str, why: str, do: str, **more: bool) -> Cause:
    return Cause(kind, re.compile(pattern, re.MULTILINE), what, where, why, do, **more)


# Messages of PAM, in SSH and in sudo.
_LOCKED = (
    _cause(
        "account_locked",
        r"[Aa]ccount (?:is |has been )?(?:temporarily )?locked due to \d{1,6} (?:failed|incorrect)",
        "The user's account on the host is locked, because of wrong passwords",
        "ansible_user, ansible_become_password",
        "PAM refuses every password until the account is unlocked",
        "As root on the host: faillock --user USER --reset; or wait for the time that the message names. Give the "
        "right password then (-K), otherwise the account is locked again",
    ),
)
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
        r"(?:privilege escalation prompt|become success)[\s\S]{0,1000}(?:\x1b|\\u001b|\\x1b)[\[\]]",
        "Ansible can't become root, because the user's shell prints control sequences before the password prompt",
        "login shell of the user on the host",
        _ROOT,
        "Give the user a plain login shell (chsh -s /bin/bash), and let its startup files print nothing if the shell "
        "is not interactive",
    ),
    _cause(
        "become_password_wrong",
        r"Incorrect \S{1,40} password|Sorry, try again|\d incorrect (?:password|authentication) attempt|Authentication "
        r"failed, try again|\bsu: Authentication failure|Duplicate become password prompt",
        "Ansible can't become root, because the password is wrong",
        "--ask-become-pass, ansible_become_password",
        _ROOT,
        "Give the password that the user has on this host: with -K if all hosts have the same one, otherwise as "
        "ansible_become_password of each host, encrypted with Ansible Vault",
    ),
    _cause(
        "become_password_missing",
        r"Missing \S{1,40} password|"
        + _FROM_SUDO
        + r"a password is required|terminal is required to read the password|no askpass program",
        "Ansible can't become root, because sudo asks for a password",
        "--ask-become-pass, ansible_become_password",
        _ROOT,
        "Provide the password (-K, which is --ask-become-pass, or ansible_become_password), or allow the user to use "
        "sudo without a password",
    ),
    _cause(
        "become_not_allowed",
        _FROM_SUDO + r"\S{1,64} is not in the sudoers file|Sorry, user \S{1,64} (?:may not run|is not allowed to) "
        r"|\S is not allowed to run sudo on |" + _FROM_SUDO + r"(?:user )?\S{1,64} is not allowed to authenticate"
        r"|I'm afraid I can't do that|\bsu: Permission denied|\bdoas: Operation not permitted"
        r"|\b(?:[Uu]suario|utilisateur|Benutzer|[Uu]suário|[Uu]tilizador|utente) \S{1,64} (?:no |ne |n['\u2019]est "
        r"|darf |não |non )(?=.{0,200}\b(?:sudo|root)\b)",
        "Ansible can't become root, because sudo does not allow it to the user",
        "sudoers on the host, ansible_user",
        _ROOT,
        _ALLOW_SUDO,
    ),
    _cause(
        "become_needs_terminal",
        r"must have a tty to run sudo|" + _FROM_SUDO + r"must be run from a terminal",
        "Ansible can't become root, because sudo requires a terminal",
        "requiretty in the sudoers of the host",
        _ROOT,
        "Remove `Defaults requiretty` from sudoers (visudo), or run with ANSIBLE_PIPELINING=false",
    ),
    _cause(
        "become_program_missing",
        r"\b" + _PROGRAM + ": " + _NOT_FOUND + r"|\b(?:sudo|sudo\.ws|doas): No such file"
        r"|" + _NOT_FOUND_ZSH + _PROGRAM + r"(?![\w./-])",
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
        r"(?P<file>/etc/sudo(?:ers|\.conf)[\w./-]{0,200}) (?:is|cannot be|can't be|must be|should be|must not be) "
        r"(?:(?:world|group)[- ]writable|owned by|only be writable|mode )",
        "Ansible can't become root, because other users can write the host's sudoers",
        "{file} on the host",
        _ROOT,
        "As root on the host: chown root:root {file}; chmod 0440 {file}; and see what else `visudo -c` names",
    ),
    _cause(
        "sudoers_wrong",
        r"no valid sudoers sources|sudoers[^\s:]{0,200}:\d{1,6}(?::\d{1,6})?: |(?:parse|syntax) error (?:in|near) "
        r"\S{0,200}(?:sudoers| line)|(?:open|read|stat) /etc/sudoers|error initializing audit plugin|"
        r"/etc/sudo(?:ers|\.conf)\S{0,200} (?:is|must|cannot|should) |"
        r"sudoers\.so\b|/etc/sudo\.conf\b|\bsudo(?:-rs)?: invalid configuration",
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
    # In other languages, sudo's message also contains the file.
    _cause(
        "become_not_allowed",
        r"\bsudoers\b",
        "Ansible can't become root, because sudo does not allow it to the user",
        "sudoers on the host, ansible_user",
        _ROOT,
        _ALLOW_SUDO,
    ),
)
_ACCOUNT = (
    _cause(
        "account_expired",
        _FROM_SUDO
        + r"(?:Your |User )?[Aa]ccount (?:has |is )?expired(?:; please contact|\.?$| or PAM)|account validation fail",
        "The user's account on the host has expired or is locked",
        "ansible_user",
        _NO_SHELL,
        "As root on the host: chage --expiredate -1 USER, and usermod --unlock USER if it is locked",
    ),
    _cause(
        "password_expired",
        _FROM_SUDO + r"(?:WARNING: )?Your password has expired\.?(?:$| You | Choose | Please change )"
        r"(?![\s\S]*Permission denied \()|You are required to change your password immediately|You must change your "
        r"password now and log|[Pp]assword change required but no TTY|[Aa]ccount or password is expired|"
        + _FROM_SUDO
        + r"Password (?:has )?expired\.|unable to change expired password|[Aa]uthentication token (?:is no longer "
        r"valid|(?:has )?expired)",
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
        r"Unprivileged users are not permitted to log in|pam_nologin|^\W?System is (?:booting up|going down)(?:\.|$)",
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
        r"bind|[Cc]ontrol socket connect\(.{0,300}\): Permission denied|muxserver_listen",
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
        "host_key_revoked",
        r"REVOKED HOST KEY DETECTED|[Hh]ost key for .{1,300} (?:was|is marked as) revoked",
        "The host's SSH key is revoked on the controller",
        "known_hosts (lines with @revoked) or RevokedHostKeys on the controller",
        "Someone may have a copy of this key, and could pretend to be the host",
        "Do not connect. Ask who revoked the key; if it is the host itself, give it new keys on its console (remove "
        "/etc/ssh/ssh_host_*_key*, ssh-keygen -A, systemctl restart ssh), and run again",
    ),
    _cause(
        "host_key_changed",
        r"\A(?=(?:[\s\S]*?ost key for " + _KNOWN + r" has changed)?)[\s\S]*(?:IDENTIFICATION HAS CHANGED|POSSIBLE DNS "
        r"SPOOFING|ost key for \S{1,300} has changed)",
        "The host's SSH key is not the one that the controller knows",
        "known_hosts on the controller",
        "The machine was reinstalled, its address belongs to another machine now, or the connection is intercepted",
        "If you know why it changed, compare the new fingerprint on the machine's console, and: ssh-keygen -R "
        "{known}; ssh {port}{address}",
    ),
    _cause(
        "host_key_unknown",
        r"No \S{1,40} host key is known for " + _KNOWN + r"|Host key verification failed|Host Key checking is "
        r"enabled|authenticity of host .{1,80} can't be established",
        "The controller does not know the host's SSH key",
        "known_hosts on the controller",
        "SSH connects only to hosts whose key is known",
        "Connect once with `ssh {port}{address}`, and compare the fingerprint before you accept the key; for many "
        "hosts, collect the keys over a trusted network: ssh-keyscan {port}{address} >> ~/.ssh/known_hosts",
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
        "key_file_open",
        r"UNPROTECTED PRIVATE KEY|bad permissions",
        "SSH ignores the private key, because other users can read it",
        "private key on the controller",
        "The key is not used to log in",
        "chmod 600 KEYFILE; on a Windows drive in WSL this has no effect, so copy the key to ~/.ssh first",
    ),
    _cause(
        "key_file_missing",
        r"^no such identity: .{1,300}: No such file|[Ii]dentity file \S+ not accessible",
        "The private key file does not exist on the controller",
        "ansible_ssh_private_key_file",
        "SSH has no other key that the host accepts",
        "Correct the path; a relative one counts from the directory in which you run Ansible",
    ),
    _cause(
        "key_file_unreadable",
        r"Load key \"[^\"\n]{1,300}\": (?:invalid format|error in libcrypto|[Pp]ermission denied)|invalid privatekey"
        r"|not a valid \S{1,40} private key",
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
        "ssh_algorithms",
        r"no mutual signature",
        "SSH on the controller and on the host have no algorithm in common for this key",
        "ansible_ssh_private_key_file, OpenSSH on both sides",
        "Newer OpenSSH does not sign with RSA keys and SHA-1, which is all that old servers accept",
        "Use a key of another type (ssh-keygen -t ed25519; ssh-copy-id -i KEYFILE.pub {login}); until then: "
        "ansible_ssh_common_args='-o PubkeyAcceptedAlgorithms=+ssh-rsa'",
    ),
    _cause(
        "jump_host",
        r"\A(?=(?:[\s\S]*?(?:(?:[Cc]ould not resolve hostname|connect to host) (?P<jump>[\w.:%-]{0,255}\w)|"
        r"(?:Connection (?:closed|reset) by|[Dd]isconnect(?:ed)? from) (?:(?:authenticating|invalid) user \S{1,64} "
        r")?(?P<jump_2>(?!UNKNOWN)[\w.:%-]{0,255}\w) port \d))?)(?=(?:[\s\S]*?(?P<jump_login>[\w.+-]{1,64}"
        r"@[\w.%-]{1,255}): Permission denied)?)[\s\S]*(?:UNKNOWN port 65535|port -1\b|[Pp]roxy ?(?:command|jump)"
        r"|kex_exchange_identification: Connection closed by remote host[\s\S]{0,2000}Permission denied)",
        "The jump host does not let the controller through",
        "ProxyJump or ProxyCommand in ansible_ssh_common_args or ~/.ssh/config",
        _NO_SHELL,
        "Log in to the jump host by hand (ssh {jump}): its name, your user there, your key and its host key must be "
        "right",
        only_unreachable=True,
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
        r"Invalid/incorrect (?:username/)?password|Authentication fail(?:ed|ure)\.|[Ff]ailed to authenticate"
        r"|sshpass error",
        "The host refuses the user or the SSH password",
        "ansible_user, ansible_password",
        _NO_SHELL,
        "Check both with ssh {login}; better, use a key: ssh-copy-id {login}",
    ),
    _cause(
        "ssh_key_refused",
        r"(?:" + _LOGIN + r": Permission denied|Permission denied \()|No (?:supported|more) authentication "
        r"methods",
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
        r"[Cc]annot allocate memory|[Mm]emory exhausted|oom[-_ ]kill|MemoryError|[Oo]ut of memory|"
        r"\bKilled\b(?! by signal)|\(exit status (?:137|-9)\)|command terminated by signal 9",
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
        r"directory|(?:\.ansible/tmp|ansible-tmp-)\S{0,200}(?: .{0,80})?: (?:\[Errno 13\] )?[Pp]ermission denied",
        "The host can be reached, but Ansible can't create its temporary directory",
        "home of the user on the host, ansible_remote_tmp",
        "Ansible copies its modules there",
        "Let the home belong to the user and be writable (ls -ld ~; df -h ~ /tmp), or set "
        "ansible_remote_tmp=/tmp/.ansible-USER; a file system mounted with noexec can't be used",
    ),
    _cause(
        "file_transfer_refused",
        r"subsystem request failed on channel|\b(?:sftp-server|scp)['\u2019]?: (?:" + _NOT_FOUND + "|No such file)"
        r"|" + _NOT_FOUND_ZSH + r"(?:sftp-server|scp)\b|[Rr]eceived message too long",
        "Ansible can't copy files to the host, because its SSH server offers no SFTP",
        "ansible_ssh_transfer_method, Subsystem sftp in the host's sshd_config",
        "Ansible copies its modules to the host with SFTP or scp, unless pipelining is on",
        "Set ansible_ssh_transfer_method=piped for the host; or let its sshd_config have `Subsystem sftp "
        "internal-sftp`, and let the startup files of the user's shell print nothing",
    ),
    _cause(
        "file_transfer_failed",
        r"\"[^\"\n]{1,400}\": Failure\b|(?:\b(?:scp|sftp): |Couldn't ).{1,400}: Failure\b|[Ff]ailed to transfer file",
        "Ansible can't copy files to the host",
        "disk of the host, ansible_remote_tmp, ansible_ssh_transfer_method",
        "Ansible copies its modules to the host; SFTP does not say why the host can't store them",
        "See whether the host's disk is full (df -h /tmp ~; df -i /tmp ~); if it is not, set "
        "ansible_ssh_transfer_method=piped for the host",
    ),
)
_NETWORK = (
    _cause(
        "host_name_unknown",
        r"(?:[Cc]ould not resolve hostname|unable to resolve host(?:name)?) \[?" + _ADDRESS + r"|Name or service not "
        r"known|[Nn]odename nor servname|Temporary failure in name resolution",
        UNREACHABLE,
        "ansible_host",
        "Its name is not in DNS or /etc/hosts of the controller",
        "Set ansible_host of {host} to its address, or correct the name",
        only_unreachable=True,
    ),
    _cause(
        "ssh_refused",
        r"Connection refused|Unable to connect to port",
        UNREACHABLE,
        "ansible_host, ansible_port",
        "The host answers, but no SSH server listens there, or a firewall rejects it",
        "Check ansible_port, and on the host: systemctl status ssh; apt-get install openssh-server",
        only_unreachable=True,
    ),
    _cause(
        "host_silent",
        r"timed out(?! during banner)|No route to host|port \d+: Resource temporarily unavailable|[Nn]etwork is "
        r"unreachable|Host is (?:down|unreachable)|Connection timeout",
        UNREACHABLE,
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
        UNREACHABLE,
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
        r"'(?P<name>[A-Za-z_]\w{0,200})' is undefined",
        "A variable that the inventory refers to is not defined",
        "{name}",
        "Ansible can't connect to the host without its value",
        "Define {name} in the inventory, or give the file that defines it (-e @FILE)",
    ),
    _cause(
        "variable_undefined",
        r"(?:object of type '\w{1,40}'|'dict object') has no (?:attribute|element) '?(?P<name>[\w.-]{1,200})'?",
        "A template of the inventory refers to what does not exist",
        "{name}",
        "Ansible can't connect to the host without its value",
        "Correct the name {name} in the inventory's templates, or define it",
    ),
    _cause(
        "plugin_unknown",
        r"(?:become method specified, could not find matching plugin: |the connection plugin )'"
        r"(?P<name>[\w.-]{1,200})'",
        "The inventory names a plugin that Ansible does not have",
        "ansible_connection, ansible_become_method",
        "Ansible can't work on the host without it",
        "Correct {name} (ssh and sudo are the defaults), or install the collection with this plugin",
    ),
    _cause(
        "vault_locked",
        r"no vault secrets|vault secrets? (?:were )?(?:not )?found|\bDecryption failed\b(?! or )"
        r"|undecryptable|vault exception",
        "A variable is encrypted with Ansible Vault, and the password is missing or wrong",
        "--ask-vault-pass, --vault-password-file",
        "Ansible can't read its value",
        "Run again with --ask-vault-pass or --vault-password-file FILE",
    ),
)
_PROGRAMS = (
    _cause(
        "python_too_old",
        r"requires (?:a minimum of )?Python|[Uu]nsupported Python version|"
        r"future feature \w{1,40} is not defined|SyntaxError: future feature",
        "The host's Python is too old for Ansible",
        "ansible_python_interpreter",
        f"Ansible's modules need Python {PYTHON} or newer on the host",
        f"Install Python {PYTHON} or newer next to it, and set ansible_python_interpreter of the host to its path, "
        "such as /usr/bin/python3.11; or use a later release of the system",
    ),
    _cause(
        "python_missing",
        r"[Nn]o python interpreter|(?<![\w.-])python[\d.]{0,9}['\u2019\"]?: (?:"
        + _NOT_FOUND
        + "|No such|bad interpreter)"
        r"|" + _NOT_FOUND_ZSH + r"python[\d.]{0,9}(?![\w./-])|interpreter \S{1,200} was not found",
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
        r"(?:^|[\s/])(?:sudo|su|doas)(?:\.ws|-rs)?: (?!unable to resolve host)|become password"
        r"|waiting for become success",
        "Ansible can't become root",
        "host",
        _ROOT,
        "Log in as the user, and see what `sudo -v` prints; allow the user to use sudo, and provide the password (-K) "
        "if sudo asks for one",
    ),
)
CAUSES = (
    *_LOCKED,
    *(replace(cause, after_login=True) for cause in _BECOME),
    *_ACCOUNT,
    *_PROMPT,
    *_SSH_SETUP,
    *_HOST,
    *_NETWORK,
    *_VARIABLES,
    *_PROGRAMS,
)

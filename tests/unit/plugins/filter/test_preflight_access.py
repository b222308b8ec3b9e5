# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each error that keeps Ansible from reading a host has one cause and a matching remedy."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.preflight import access_problems, preflight_report

SSH = "Task failed: Failed to connect to the host via ssh: "
SENT = 'Task failed: Data could not be sent to remote host "192.0.2.21". Make sure this host can be reached over ssh: '
ESCALATION = "Task failed: Timeout (12s) waiting for privilege escalation prompt: "
TMP = (
    "Task failed: Failed to create temporary directory. In some cases, you may have been able to authenticate and did "
    'not have permissions on the target directory. Failed command was: ( umask 77 && mkdir -p "` echo /home/x/.ansible'
    '/tmp `"&& mkdir "` echo /home/x/.ansible/tmp/ansible-tmp-1.2-3 `" ), exited with result 1'
)
CHANGED = (
    "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r\n"
    "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n"
    "@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@\r\n"
    "Host key for gpu1.example.org has changed and you have requested strict checking.\r\n"
    "Host key verification failed."
)
GONE = "Connection closed by UNKNOWN port 65535"
BANNER = "Warning: authorized users only. It is recorded who is not allowed to run jobs here.\r\n"
EXPIRED = "If your password has expired contact the help desk. Your account is expired after 90 days.\r\n"
REFUSED_KEY = "admin@192.0.2.21: Permission denied (publickey)."
DEBUG = "".join(f"debug1: line {number} of what SSH does: nothing that matters here\r\n" for number in range(300))
# SSH's messages about unreachable hosts, with the kind of problem and a part of the remedy.
UNREACHABLE = [
    (f"{ESCALATION}", "become_prompt_missing", "ansible_become_exe=sudo.ws"),
    (f"{ESCALATION}[sudo: [sudo via ansible, key=ab] password:] Password: ", "sudo_rs", "ansible_become_exe=sudo.ws"),
    (f"{ESCALATION}\x1b]11;?\x1b\\\x1b[6n\x1b[?25l", "become_prompt_disturbed", "chsh -s /bin/bash"),
    (
        "Task failed: Timed out waiting for become success or become password prompt.\n>>> Standard Error\n"
        "[sudo: [sudo via ansible, key=ab] password:] Password: ",
        "sudo_rs",
        "ansible_become_exe=sudo.ws",
    ),
    (f"{SSH}admin@192.0.2.21: Permission denied (publickey).", "ssh_key_refused", "ssh-copy-id admin@192.0.2.21"),
    (f"{SENT}admin@gpu1: Permission denied (publickey,password).", "ssh_key_refused", "ssh-copy-id admin@gpu1"),
    (f"{SSH}root@192.0.2.21: Permission denied (publickey,password).", "root_login_refused", "sudo privileges"),
    (
        f'{SSH}Please login as the user "ubuntu" rather than the user "root".',
        "root_login_refused",
        "Set ansible_user to ubuntu",
    ),
    (f"{SSH}Host key verification failed.", "host_key_unknown", "ssh-keyscan"),
    (
        f"{SSH}No ED25519 host key is known for 192.0.2.21 and you have requested strict checking.\r\n"
        "Host key verification failed.",
        "host_key_unknown",
        "ssh 192.0.2.21",
    ),
    (f"{SSH}{CHANGED}", "host_key_changed", "ssh-keygen -R gpu1.example.org"),
    (
        f"{SSH}Received disconnect from 192.0.2.21 port 22:2: Too many authentication failures",
        "too_many_keys",
        "IdentitiesOnly=yes",
    ),
    (
        f"{SSH}@@@@@@@@@ WARNING: UNPROTECTED PRIVATE KEY FILE! @@@@@@@@@\r\nPermissions 0777 for '/mnt/c/k' are too "
        'open.\r\nLoad key "/mnt/c/k": bad permissions\r\nadmin@192.0.2.21: Permission denied (publickey).',
        "key_file_open",
        "chmod 600",
    ),
    (
        f"{SSH}no such identity: /home/x/.ssh/gpus: No such file or directory\r\n"
        "admin@192.0.2.21: Permission denied (publickey).",
        "key_file_missing",
        "Correct the path",
    ),
    (
        f'{SSH}Load key "/home/x/gpus": error in libcrypto\r\nadmin@192.0.2.21: Permission denied (publickey).',
        "key_file_unreadable",
        "ssh-keygen -y",
    ),
    (
        f'{SSH}sign_and_send_pubkey: signing failed for ED25519 "k" from agent: agent refused operation\r\n'
        "admin@192.0.2.21: Permission denied (publickey).",
        "key_locked",
        "ssh-add",
    ),
    (
        f'{SSH}unix_listener: path "/home/x/.ansible/cp/0123456789.abcdef" too long for Unix domain socket',
        "control_path",
        "ANSIBLE_SSH_CONTROL_PATH_DIR",
    ),
    (
        f"{SSH}jump@198.51.100.7: Permission denied (publickey).\r\n{GONE}",
        "jump_host",
        "ssh jump@198.51.100.7",
    ),
    (
        f"{SSH}ssh: Could not resolve hostname bastion: Name or service not known\r\n{GONE}",
        "jump_host",
        "ssh bastion",
    ),
    (
        f"{SSH}channel 0: open failed: administratively prohibited: open failed\r\nstdio forwarding failed\r\n{GONE}",
        "jump_host_forwarding",
        "AllowTcpForwarding",
    ),
    (
        f"{SSH}channel 0: open failed: connect failed: Connection refused\r\nstdio forwarding failed\r\n{GONE}",
        "jump_host_forwarding",
        "from the jump host",
    ),
    (f"{SSH}ssh: Could not resolve hostname gpu1: Name or service not known", "host_name_unknown", "ansible_host"),
    (f"{SSH}ssh: connect to host 192.0.2.21 port 22: Connection refused", "ssh_refused", "systemctl status ssh"),
    (f"{SENT}ssh: connect to host 192.0.2.21 port 22: Connection timed out", "host_silent", "security group"),
    (f"{SSH}ssh: connect to host 192.0.2.21 port 22: No route to host", "host_silent", "security group"),
    (f"{SSH}kex_exchange_identification: Connection closed by remote host", "ssh_closed", "MaxStartups"),
    (f"{SSH}Connection timed out during banner exchange", "ssh_closed", "journalctl -u ssh"),
    (f"{SSH}Unable to negotiate: no matching host key type found. Their offer: ssh-rsa", "ssh_algorithms", "+ssh-rsa"),
    (f"{SSH}command-line: line 0: Bad configuration option: proxyjumpp", "ssh_config_wrong", "~/.ssh/config"),
    ("Task failed: Invalid/incorrect password: Permission denied, please try again.", "ssh_password_wrong", "ssh-copy"),
    (
        f"{SSH}WARNING: Your password has expired.\nPassword change required but no TTY available.",
        "password_expired",
        "chage",
    ),
    (f"{SSH}Your account has expired; please contact your system administrator.", "account_expired", "chage"),
    (f'{SSH}"System is booting up. Unprivileged users are not permitted to log in yet."', "host_is_booting", "Wait"),
    (f"{SSH}This account is currently not available.", "login_shell", "usermod --shell"),
    (TMP, "remote_tmp", "ansible_remote_tmp=/tmp/"),
    (
        f"{TMP}, stderr output: mkdir: cannot create directory '/home/x': Permission denied",
        "remote_tmp",
        "ansible_remote",
    ),
    (
        "Task failed: mkdir: cannot create directory '/home/x/.ansible': No space left on device",
        "host_disk_full",
        "df -i",
    ),
    (f"{TMP}, stderr output: mkdir: cannot create directory: Read-only file system", "host_read_only", "findmnt"),
    (f"{SSH}bash: fork: Cannot allocate memory", "host_out_of_memory", "free -m"),
    ("A worker was found in a dead state", "controller_worker_lost", "--forks 5"),
    (
        f"{SSH}Please login as the ec2-user user rather than the root user.",
        "root_login_refused",
        "ansible_user to ec2-user",
    ),
    (
        f"{SSH}mux_client_request_session: session request failed: Session open refused by peer",
        "ssh_closed",
        "--forks 5",
    ),
    ("Task failed: object of type 'dict' has no attribute 'bastion'", "variable_undefined", "bastion"),
    (
        f"{SSH}ssh: connect to host 192.0.2.21 port 22: Resource temporarily unavailable",
        "host_silent",
        "security group",
    ),
    (
        f"{SSH}Received disconnect from UNKNOWN port 65535:2: Too many authentication failures\r\n"
        "Disconnected from UNKNOWN port 65535",
        "too_many_keys",
        "IdentitiesOnly=yes",
    ),
    (f"{SSH}kex_exchange_identification: Connection closed by remote host\r\n{GONE}", "jump_host", "(ssh JUMPHOST)"),
    (
        f"{SSH}kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 198.51.100.7 port "
        f"22\r\n{GONE}",
        "jump_host",
        "(ssh 198.51.100.7)",
    ),
    (f"{SSH}Received disconnect from UNKNOWN port 65535:11: Bye\r\n{GONE}", "jump_host", "(ssh JUMPHOST)"),
    (
        f'{SSH}Load key "/x/k": invalid format\r\njump@a: Permission denied (publickey).\r\n{GONE}',
        "key_file_unreadable",
        "ssh-keygen -y",
    ),
    (f"{SSH}sign_and_send_pubkey: no mutual signature supported\r\n{REFUSED_KEY}", "ssh_algorithms", "ed25519"),
    (
        f"{SSH}send_pubkey_test: no mutual signature algorithm\r\nroot@a: Permission denied (publickey).",
        "ssh_algorithms",
        "PubkeyAcceptedAlgorithms=+ssh-rsa",
    ),
    (f"{SSH}Killed by signal 1.\r\n{REFUSED_KEY}", "ssh_key_refused", "ssh-copy-id"),
    (f"{SSH}ssh: connect to host a port 22: Connection refused\r\nKilled by signal 1.", "ssh_refused", "ansible_port"),
    (f"{SSH}OpenSSH_9.2p1\r\n{DEBUG}{REFUSED_KEY}", "ssh_key_refused", "ssh-copy-id admin@192.0.2.21"),
    (f"{SSH}{DEBUG.replace('debug1: ', '')}{REFUSED_KEY}", "ssh_key_refused", "ssh-copy-id admin@192.0.2.21"),
    (
        f"{SSH}debug3: no such identity: /home/x/.ssh/id_xmss: No such file or directory\r\n{REFUSED_KEY}",
        "ssh_key_refused",
        "ssh-copy-id admin@192.0.2.21",
    ),
    (
        f"{SSH}debug2: fd 3 setting O_NONBLOCK\r\ndebug1: Executing proxy command: exec nc\r\n{REFUSED_KEY}",
        "ssh_key_refused",
        "ssh-copy-id",
    ),
    (f"{SSH}{EXPIRED}{REFUSED_KEY}", "ssh_key_refused", "ssh-copy-id"),
    (f"{SSH}Your password has expired contact IT\r\n{REFUSED_KEY}", "ssh_key_refused", "ssh-copy-id"),
    (f"{SSH}Your password has expired.\r\n{REFUSED_KEY}", "ssh_key_refused", "ssh-copy-id"),
    (f"{SSH}System is going down on Friday.\r\n{REFUSED_KEY}", "ssh_key_refused", "ssh-copy-id"),
    (f"{SSH}{BANNER}{REFUSED_KEY}", "ssh_key_refused", "ssh-copy-id"),
    (f"{SSH}Ask root to be in sudoers: a password is required.\r\n{REFUSED_KEY}", "ssh_key_refused", "ssh-copy-id"),
    (f"{SSH}{BANNER}ssh: connect to host a port 22: Connection timed out", "host_silent", "firewall"),
    (
        f"{SSH}You are required to change your password immediately (administrator enforced).\r\n{REFUSED_KEY}",
        "password_expired",
        "chage",
    ),
    (
        f'{SSH}Load key "/x/k": incorrect passphrase supplied to decrypt private key\r\n{REFUSED_KEY}',
        "key_locked",
        "ssh-add",
    ),
    (
        f"{SSH}{CHANGED.replace('gpu1.example.org', '[192.0.2.5]:2222')}",
        "host_key_changed",
        "ssh-keygen -R [192.0.2.5]:2222; ssh -p 2222 192.0.2.5",
    ),
    (
        f"{SSH}No RSA host key is known for [192.0.2.5]:2222 and you have requested strict checking.",
        "host_key_unknown",
        "ssh-keyscan -p 2222 192.0.2.5",
    ),
    (
        f"{SSH}@ WARNING: REVOKED HOST KEY DETECTED! @\r\nHost key verification failed.",
        "host_key_revoked",
        "Do not connect",
    ),
    (f"{SSH}The ED25519 host key for gpu1 is marked as revoked.", "host_key_revoked", "Ask who"),
    (f"{SSH}Control socket connect(/home/x/.ansible/cp/ab): Permission denied", "control_path", "CONTROL_PATH_DIR"),
    (f"{SSH}muxserver_listen: link mux listener /x => /y: Operation not permitted", "control_path", "CONTROL_PATH_DIR"),
    ("Task failed: Authentication failure.", "ssh_password_wrong", "ssh-copy-id"),
    ("Task failed: Failed to authenticate: Authentication failed.", "ssh_password_wrong", "ssh-copy-id"),
    (f"{SSH}subsystem request failed on channel 0\r\nscp: Connection closed", "file_transfer_refused", "=piped"),
    (
        f"{SSH}The account is locked due to 3 failed logins.\r\nadmin@a: Permission denied (publickey,password).",
        "account_locked",
        "faillock --user USER --reset",
    ),
    ("Task failed: an unknown message", "host_unreachable", "ansible gpu1 -i INVENTORY -b -m"),
]
FAILED = [
    ({"msg": "Task failed: Incorrect sudo password"}, "become_password_wrong", "-K"),
    ({"msg": "x", "module_stderr": "sudo: 1 incorrect password attempt"}, "become_password_wrong", "-K"),
    ({"msg": "x", "module_stderr": "su: Authentication failure"}, "become_password_wrong", "-K"),
    ({"msg": "Task failed: Missing sudo password"}, "become_password_missing", "--ask-become-pass"),
    ({"msg": "x", "module_stderr": "sudo: a password is required"}, "become_password_missing", "--ask-become-pass"),
    ({"msg": "x", "module_stderr": "sudo: interactive authentication is required"}, "sudo_rs", "sudo.ws"),
    ({"msg": "x", "module_stdout": "admin is not in the sudoers file."}, "become_not_allowed", "usermod -aG sudo"),
    ({"msg": "x", "module_stderr": "sudo: I'm sorry x. I'm afraid I can't do that"}, "become_not_allowed", "usermod"),
    ({"msg": "x", "module_stderr": "Sorry, user x may not run sudo on gpu1."}, "become_not_allowed", "usermod"),
    ({"msg": "x", "module_stderr": "sudo: sorry, you must have a tty to run sudo"}, "become_needs_terminal", "tty"),
    ({"msg": "x", "module_stderr": "/bin/sh: 1: sudo: not found"}, "become_program_missing", "apt-get install sudo"),
    ({"msg": "x", "module_stderr": "sh: line 1: sudo.ws: command not found"}, "become_program_missing", "sudo"),
    (
        {"msg": "x", "module_stderr": "sudo: /usr/bin/sudo must be owned by uid 0 and have the setuid bit set"},
        "become_blocked",
        "root",
    ),
    ({"msg": "x", "module_stderr": "/etc/sudoers.d/90:3:1: syntax error"}, "sudoers_wrong", "visudo -c"),
    (
        {"msg": "x", "module_stderr": "sudo: Account or password is expired, reset your password"},
        "password_expired",
        "chage",
    ),
    (
        {"msg": "Task failed: Premature end of stream waiting for become success.\n>>> Standard Error\nsudo: no"},
        "become_refused",
        "sudo -v",
    ),
    (
        {
            "msg": "Failed to set permissions on the temporary files Ansible needs to create when becoming an "
            "unprivileged user"
        },
        "become_unprivileged",
        "ansible_become_user",
    ),
    (
        {"msg": "Task failed: to use the password_mechanism=sshpass, you must install the sshpass program"},
        "sshpass_missing",
        "apt-get install sshpass",
    ),
    (
        {
            "msg": "Task failed: Using a SSH password instead of a key is not possible because Host Key checking is "
            "enabled."
        },
        "host_key_unknown",
        "ssh-keyscan",
    ),
    ({"msg": "x", "module_stderr": "OSError: [Errno 28] No space left on device"}, "host_disk_full", "df -h"),
    ({"msg": "MODULE FAILURE", "rc": 137}, "host_out_of_memory", "free -m"),
    ({"msg": "x", "module_stderr": "Killed", "rc": 137}, "host_out_of_memory", "free -m"),
    ({"msg": "Task failed: 'vault_proxy' is undefined"}, "variable_undefined", "Define vault_proxy"),
    ({"msg": "Attempting to decrypt but no vault secrets found."}, "vault_locked", "--ask-vault-pass"),
    ({"msg": "x", "module_stderr": "/tmp/ansible-tmp-1/AnsiballZ_x.py: Permission denied"}, "remote_tmp", "noexec"),
    (
        {"msg": "x", "module_stderr": "python3: can't open file '/x/.ansible/tmp/a.py': [Errno 13] Permission denied"},
        "remote_tmp",
        "ansible_remote_tmp",
    ),
    ({"msg": "x", "module_stderr": "su: must be run from a terminal"}, "become_needs_terminal", "PIPELINING"),
    (
        {"msg": "Invalid become method specified, could not find matching plugin: 'sudu'. Use `ansible-doc`"},
        "plugin_unknown",
        "Correct sudu",
    ),
    ({"msg": "x", "module_stderr": "AttributeError: 'NoneType' object has no attribute 'y'"}, "host_unreadable", "Try"),
    (
        {"msg": "Ansible requires Python 3.9 or newer on the target. Current version: 3.6.8 (default) [GCC 8.5.0]"},
        "python_too_old",
        "ansible_python_interpreter",
    ),
    (
        {"msg": "x", "module_stderr": "SyntaxError: future feature annotations is not defined"},
        "python_too_old",
        "newer",
    ),
    (
        {"msg": "ansible-core requires a minimum of Python version 3.9. Current version: 3.6.8"},
        "python_too_old",
        "newer",
    ),
    (
        {"msg": 'failed to transfer file to /a /b:\n\nscp: write remote "/home/x/.ansible/tmp/a.py": Failure\n'},
        "file_transfer_failed",
        "df -h",
    ),
    (
        {"msg": 'failed to transfer file to /a /b:\n\nCouldn\'t write to remote file "/b": Failure\n'},
        "file_transfer_failed",
        "ansible_ssh_transfer_method=piped",
    ),
    ({"msg": "failed to transfer file to /a /b:\n\nlost connection"}, "file_transfer_failed", "df -h"),
    (
        {"msg": "failed to transfer file to /a /b:\n\nbash: line 1: /usr/lib/sftp-server: No such file or directory"},
        "file_transfer_refused",
        "ansible_ssh_transfer_method=piped",
    ),
    (
        {"msg": "failed to transfer file to /a /b:\n\nsh: 1: /usr/lib/openssh/sftp-server: not found"},
        "file_transfer_refused",
        "internal-sftp",
    ),
    (
        {"msg": 'failed to transfer file to /a /b:\n\nscp: dest open "/home/x/.ansible/tmp/a": Permission denied'},
        "remote_tmp",
        "ansible_remote_tmp",
    ),
    (
        {
            "msg": "x",
            "module_stderr": "The account is locked due to 3 failed logins.\n(10 minutes left to unlock)\nsudo: 1 "
            "incorrect password attempt",
        },
        "account_locked",
        "faillock --user USER --reset",
    ),
    (
        {"msg": "x", "module_stderr": "su: Account temporarily locked due to 5 failed logins"},
        "account_locked",
        "faillock",
    ),
    (
        {"msg": "x", "module_stderr": "sudo-rs: invalid configuration: /etc/sudoers cannot be world-writable"},
        "sudoers_wrong",
        "chmod 0440 /etc/sudoers;",
    ),
    (
        {"msg": "x", "module_stderr": "sudo: /etc/sudoers is world writable\nsudo: no valid sudoers sources found"},
        "sudoers_wrong",
        "chmod 0440 /etc/sudoers;",
    ),
    (
        {"msg": "x", "module_stderr": "sudo: /etc/sudoers.d/90-x is owned by uid 1000, should be 0"},
        "sudoers_wrong",
        "chown root:root /etc/sudoers.d/90-x;",
    ),
    ({"msg": "x", "module_stderr": "sudo: /etc/sudoers is not a regular file"}, "sudoers_wrong", "visudo -c"),
    (
        {"msg": "x", "module_stderr": "juan no est\u00e1 en el archivo sudoers. Se informar\u00e1 de este incidente."},
        "become_not_allowed",
        "usermod -aG sudo",
    ),
    (
        {"msg": "x", "module_stderr": "jean n'appara\u00eet pas dans le fichier sudoers."},
        "become_not_allowed",
        "usermod -aG sudo",
    ),
    ({"msg": "x", "module_stderr": "max ist nicht in der sudoers-Datei."}, "become_not_allowed", "usermod -aG sudo"),
    ({"msg": "x", "module_stderr": "ana n\u00e3o est\u00e1 no arquivo sudoers."}, "become_not_allowed", "usermod"),
    (
        {"msg": "x", "module_stderr": "Tut mir leid, Benutzer max darf sudo f\u00fcr gpu1 nicht ausf\u00fchren."},
        "become_not_allowed",
        "usermod -aG sudo",
    ),
    ({"msg": "x", "module_stderr": "zsh:1: command not found: sudo"}, "become_program_missing", "apt-get install sudo"),
    ({"msg": "x", "module_stderr": "fish: Unknown command: sudo"}, "become_program_missing", "apt-get install sudo"),
    (
        {"msg": "x", "module_stderr": "zsh:1: no such file or directory: /usr/bin/python3.9"},
        "python_missing",
        "python3",
    ),
    ({"msg": "x", "module_stderr": "zsh:1: command not found: python3"}, "python_missing", "apt-get install python3"),
    ({"msg": "x", "module_stderr": "env: 'python3': No such file or directory"}, "python_missing", "python3"),
    ({"msg": "x", "module_stderr": "/bin/sh: 1: /usr/bin/python3.9: not found"}, "python_missing", "python3"),
    (
        {"msg": "x", "module_stderr": "ImportError: /usr/lib/python3/dist-packages/x.so: No such file or directory"},
        "host_unreadable",
        "preflight_info",
    ),
    ({"msg": "[SSL] decryption failed or bad record mac (_ssl.c:2580)"}, "host_unreadable", "preflight_info"),
    (
        {"msg": "Decryption failed (no vault secrets were found that could decrypt)."},
        "vault_locked",
        "--ask-vault-pass",
    ),
    # A module's failed connection is not a failure of Ansible's own connection.
    ({"msg": "Error while reading http://a: Connection refused"}, "host_unreadable", "preflight_info"),
    # With a wrong /etc/hosts, sudo prints a warning, but works.
    (
        {"msg": "x", "module_stderr": "sudo: unable to resolve host gpu1\r\nThere is no python3: not found"},
        "python_missing",
        "python3",
    ),
    (
        {"msg": "x", "module_stderr": "sudo: unable to resolve host gpu1: Name or service not known\r\nKeyError: 'y'"},
        "host_unreadable",
        "preflight_info",
    ),
    (
        {"msg": "Python interpreter discovered at /usr/bin/python3.12", "module_stderr": "sh: 1: foo: not found"},
        "host_unreadable",
        "preflight_info",
    ),
]


def find(result: dict[str, Any]) -> dict[str, str]:
    (problem,) = access_problems(result, "gpu1", "2.21.5")
    return problem


@pytest.mark.parametrize(("text", "kind", "remedy"), UNREACHABLE)
def test_unreachable_host_has_the_remedy_for_its_cause(text: str, kind: str, remedy: str) -> None:
    found = find({"unreachable": True, "msg": text})
    assert (found["kind"], remedy in found["do"]) == (kind, True), found
    assert preflight_report([found]).isascii() and "\x1b" not in found["what"] and "{" not in found["do"]


@pytest.mark.parametrize(("result", "kind", "remedy"), FAILED)
def test_unreadable_host_has_the_remedy_for_its_cause(result: dict[str, Any], kind: str, remedy: str) -> None:
    found = find(result)
    assert (found["kind"], remedy in found["do"]) == (kind, True), found


def test_banner_of_ssh_does_not_hide_the_message() -> None:
    assert "@@@" not in find({"unreachable": True, "msg": f"{SSH}{CHANGED}"})["what"]


@pytest.mark.parametrize(
    "word",
    [
        *("a", "a@", "a.", "a: ", "-", "/", '"', "'", " ", "\n", "\x1b", "[", "@", "1", "sudo: ", "host key for "),
        *(
            "ansible-tmp-",
            "interpreter/",
            "UNKNOWN",
            "become success ",
            "IDENTIFICATION HAS CHANGED",
            "Load key ",
            "/etc/",
        ),
        *("scp: ", "via ssh: ", "debug1: ", "Permission denied ", "user a no ", "command not found: /", "sudoers:1:"),
    ],
)
def test_long_words_are_parsed_quickly(word: str) -> None:
    begun = time.process_time()
    find({"unreachable": True, "msg": SSH + word * (100_000 // len(word))})
    assert time.process_time() - begun < 0.5


def test_long_message_is_shortened_in_the_middle() -> None:
    what = find({"unreachable": True, "msg": f"{SSH}first {'x' * 9000} last"})["what"]
    assert "first" in what and "last" in what and " ... " in what and len(what) < 8100


def test_remedy_contains_only_valid_names_from_messages() -> None:
    found = find({"unreachable": True, "msg": f"{SSH}a;reboot@$(reboot): Permission denied (publickey)."})
    assert "reboot" not in found["do"] and "USER@ADDRESS" in found["do"]

# Copyright (c) 2026, The gpulab.kubernetes maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps Ansible from working on a host has one cause, with the remedy that removes this cause."""

from __future__ import annotations

import time
from typing import Any

import pytest
from ansible_collections.gpulab.kubernetes.plugins.filter.access_problems import access_problems
from ansible_collections.gpulab.kubernetes.plugins.filter.preflight_report import preflight_report

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
# In SSH's words: a host that can't be reached, by kind and what the remedy contains.
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
    ({"msg": "x", "module_stderr": "su: must be run from a terminal"}, "become_needs_terminal", "PIPELINING"),
    (
        {"msg": "Invalid become method specified, could not find matching plugin: 'sudu'. Use `ansible-doc`"},
        "plugin_unknown",
        "Correct sudu",
    ),
    ({"msg": "x", "module_stderr": "AttributeError: 'NoneType' object has no attribute 'y'"}, "host_unreadable", "Try"),
    # What a module has tried is not how Ansible reaches the host.
    ({"msg": "Error while reading http://a: Connection refused"}, "host_unreadable", "preflight_info"),
    # sudo on a host with a wrong /etc/hosts warns, and works.
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
def test_a_host_that_is_not_reached_has_the_remedy_of_its_cause(text: str, kind: str, remedy: str) -> None:
    found = find({"unreachable": True, "msg": text})
    assert (found["kind"], remedy in found["do"]) == (kind, True), found
    assert preflight_report([found]).isascii() and "\x1b" not in found["what"] and "{" not in found["do"]


@pytest.mark.parametrize(("result", "kind", "remedy"), FAILED)
def test_a_host_that_can_not_be_read_has_the_remedy_of_its_cause(
    result: dict[str, Any], kind: str, remedy: str
) -> None:
    found = find(result)
    assert (found["kind"], remedy in found["do"]) == (kind, True), found


def test_a_frame_of_signs_does_not_hide_the_message() -> None:
    assert "@@@" not in find({"unreachable": True, "msg": f"{SSH}{CHANGED}"})["what"]


@pytest.mark.parametrize("word", ["a", "a@", "a.", "ansible-tmp-", "interpreter/", "UNKNOWN"])
def test_a_long_word_takes_no_time(word: str) -> None:
    begun = time.process_time()
    find({"unreachable": True, "msg": SSH + word * (50_000 // len(word))})
    assert time.process_time() - begun < 1


def test_a_name_in_a_message_reaches_the_remedy_only_if_it_can_be_one() -> None:
    found = find({"unreachable": True, "msg": f"{SSH}a;reboot@$(reboot): Permission denied (publickey)."})
    assert "reboot" not in found["do"] and "USER@ADDRESS" in found["do"]

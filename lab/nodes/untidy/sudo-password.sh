printf '%s:%s\n' "$LOGIN" "$PASSWORD" | chpasswd
printf '%s ALL=(ALL:ALL) ALL\n' "$LOGIN" >"/etc/sudoers.d/$LOGIN"

// user-data: who may log in, and the machine's name.
import type { VmValues } from "../config/vm-config.ts";
import { type CloudinitFacts, hostNames, sshKeys } from "./cloudinit-source.ts";
import { yamlScalar } from "./yaml-scalar.ts";

export function cloudinitUserData(values: VmValues, facts: CloudinitFacts): string {
  const { hostname, fqdn } = hostNames(values, facts.vmid);
  const user = values["ciuser"];
  const password = values["cipassword"];
  const keys = sshKeys(values);
  const upgrade = values["ciupgrade"];
  const lines = [
    "#cloud-config",
    `hostname: ${yamlScalar(hostname)}`,
    "manage_etc_hosts: true",
    `fqdn: ${yamlScalar(fqdn)}`,
    ...(user === undefined ? [] : [`user: ${yamlScalar(user)}`]),
    ...(user === "root" ? ["disable_root: False"] : []),
    ...(password === undefined ? [] : [`password: ${yamlScalar(password)}`]),
    ...(keys === undefined ? [] : ["ssh_authorized_keys:", ...keys.map((key) => `  - ${yamlScalar(key)}`)]),
    "chpasswd:",
    "  expire: False",
    ...(user === "root" ? [] : ["users:", "  - default"]),
    ...(upgrade === undefined || upgrade === "1" ? ["package_upgrade: true"] : []),
  ];
  return `${lines.join("\n")}\n`;
}

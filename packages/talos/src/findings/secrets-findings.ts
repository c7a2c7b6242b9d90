// Findings about the secrets bundle, its keys and the record of what was applied.
import type { FindingKind } from "./finding.ts";

export const secretsFindings = {
  "secrets-shared": {
    area: "secrets",
    title: "Two clusters have the same secrets",
    evidence: "the two clusters",
    cause:
      "Machines find each other by the secrets' id: control planes of the second would join the first one's etcd. A file that was copied still names the first one's secrets.file.",
    fix: "Give the second file a secrets.file of its own: gpvectl talos set -f FILE secrets.file=OTHER.",
  },
  "age-key-missing": {
    area: "secrets",
    title: "There is no age key to decrypt with",
    evidence: "the places that were looked at",
    cause:
      "The secrets are encrypted, and neither SOPS_AGE_KEY, SOPS_AGE_KEY_FILE nor the default file has a key.",
    fix: "Put the key of a recipient into the default file, or name its file with SOPS_AGE_KEY_FILE.",
  },
  "age-key-wrong": {
    area: "secrets",
    title: "The age key is not one of the file's recipients",
    evidence: "the recipients of the keys that were found, and those of cluster.yaml",
    cause: "The file was encrypted for somebody else, or the key file holds a line that is no key.",
    fix: "Use the key of one of the recipients. Someone who has it can add yours to secrets.recipients and import the exported secrets again.",
  },
  "recipient-wrong": {
    area: "secrets",
    title: "secrets.recipients names something that is no recipient",
    evidence: "the text",
    cause:
      "Recipients are public keys that begin with age1; a secret key begins with AGE-SECRET-KEY and does not belong there.",
    fix: "Write the public key: `age-keygen -y FILE` prints it.",
  },
  "recipients-missing": {
    area: "secrets",
    title: "There is nobody to encrypt the secrets for",
    evidence: "secrets.recipients is empty",
    cause: "Secrets are never written in plain text beside cluster.yaml.",
    fix: "Add your age recipient; `gpvectl talos init` makes a key when there is none and adds it.",
  },
  "secrets-plain": {
    area: "secrets",
    title: "The secrets lie there in plain text",
    evidence: "the file and its mode",
    cause: "The file of secrets.file was written by another tool without encryption.",
    fix: "Move it away and take it in with `gpvectl talos secrets import FILE`, which encrypts it; then delete the plain one.",
  },
  "bundle-unusable": {
    area: "secrets",
    title: "A file is no secrets bundle of Talos",
    evidence: "the part that is missing or wrong; never its value",
    cause: "It is another file, was cut short, or was changed by hand.",
    fix: "Take the file that `talosctl gen secrets` or `gpvectl talos secrets export` wrote.",
  },
  "secrets-damaged": {
    area: "secrets",
    title: "The secrets file is damaged",
    evidence: "the file and what does not match",
    cause:
      "It was cut short, merged by hand or changed without its key: age and SOPS notice every changed byte.",
    fix: "Take it from a backup or from the repository's history.",
  },
  "secrets-gone": {
    area: "secrets",
    title: "The secrets of a running cluster are gone",
    evidence: "the file and when the cluster was made",
    cause: "The file was moved or deleted. New secrets would be another cluster's.",
    fix: "Take it from a backup. From a running control plane, its machine configuration holds the same values.",
  },
  "access-expires": {
    area: "secrets",
    title: "A certificate in your talosconfig or kubeconfig is about to end",
    evidence: "the context, the file, and the days that are left",
    cause:
      "They are signed for a year when they are merged, and nobody renews them. gpvectl talos itself does not use them.",
    fix: "gpvectl talos talosconfig --merge and gpvectl talos kubeconfig --merge put new ones in their place; CI systems get theirs anew in the same way.",
  },
  "secrets-applied": {
    area: "secrets",
    title: "Secrets of a running cluster are not replaced",
    evidence: "when the cluster was made",
    cause: "Machines trust only the authorities they were made with.",
    fix: "Use a folder of its own for another cluster.",
  },
  "secret-reference": {
    area: "secrets",
    title: "A secret that is referred to cannot be read",
    evidence: "the reference, never the value",
    cause: "The environment variable is not set, the file is not there, or the key within it does not exist.",
    fix: "Correct the tokenRef, or put the token where it points.",
  },
  "copy-damaged": {
    area: "secrets",
    title: "A copy of a cluster's files is not whole",
    evidence: "the folder, and what is wrong in it",
    cause:
      "A file of it was lost, changed or cut off since it was made, or the folder is none of our copies.",
    fix: "Use another copy: the newest ones lie in .deployer/CLUSTER/before, others where `talos backup files` put them.",
  },
  "lock-damaged": {
    area: "secrets",
    title: "The lock file cannot be read",
    evidence: "its path",
    cause: "It was changed by hand or merged badly.",
    fix: "Take .deployer/CLUSTER/lock.json from a backup.",
  },
  "lock-of-another": {
    area: "secrets",
    title: "The lock file belongs to another cluster",
    evidence: "both names",
    cause: "A folder below .deployer was copied or renamed.",
    fix: "Put the right one there, or use a folder of its own for each cluster.",
  },
} as const satisfies Record<string, FindingKind>;

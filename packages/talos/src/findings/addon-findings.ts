// Findings of add-ons: where they come from, and what they need.
import type { FindingKind } from "./finding.ts";

export const addonFindings = {
  "addons-mismatch": {
    area: "file",
    title: "Add-ons do not go together",
    evidence: "the key, its value, and what is not there",
    cause:
      "loadBalancer: cilium and ingress: gateway are done by Cilium, and the network of pods is flannel; or csi.default names a storage that addons.csi does not have.",
    fix: "Use addons.cni.type: cilium, or loadBalancer: metallb and ingress: traefik; name the storage below addons.csi. A controller of the Gateway API that addons.extra or a repository (gitops) may bring is taken for one.",
  },
  "addon-unreachable": {
    area: "kubernetes",
    title: "An add-on cannot be fetched",
    evidence: "the add-on, from where, and what happened",
    cause: "Its source is not reachable from here, or has no such version.",
    fix: "Give a mirror (addons.mirrors), a folder with it (addons.offlineDir, as NAME-VERSION.yaml or .tgz), another source (addons.sources.NAME), or switch it off. Nothing was touched.",
  },
  "addon-changed": {
    area: "kubernetes",
    title: "An add-on's source is not what it was",
    evidence: "the checksum that is locked and the one that was found",
    cause: "Whoever serves it put other bytes under the same version, or the file was edited.",
    fix: "Find out why. If it is meant: gpvectl talos addons update NAME.",
  },
  "addon-broken": {
    area: "kubernetes",
    title: "An add-on's source is no manifest, or its chart does not render",
    evidence: "what cannot be read",
    cause: "The address answers with something else, such as a login page, or values do not fit the chart.",
    fix: "Check addons.sources and addons.values; gpvectl talos addons show NAME prints what would be applied.",
  },
  "helm-missing": {
    area: "kubernetes",
    title: "A chart cannot be rendered here",
    evidence: "the add-on",
    cause: "Charts are rendered by helm, which is not installed on this machine.",
    fix: "Install helm, or render it elsewhere (helm template) and give the result as addons.sources.NAME.manifest. For the network of pods, addons.cni.type: flannel needs no chart.",
  },
  "addon-endpoint": {
    area: "platform",
    title: "Pods would not reach the platform",
    evidence: "the add-ons that work with it, and where they would look for it",
    cause:
      "providers.*.endpoint is an address of this machine itself (127.0.0.1), or there is none, and the platform does not tell its node's own: the token lacks Sys.Audit on /, or the cluster of the platform knows none.",
    fix: "Write an address that machines reach into providers.*.endpoint, or give the token Sys.Audit on /. An account whose Secret has the wrong one is made anew: delete the Secret (kube-system/proxmox-cloud-controller-manager, or the CSI driver's), then apply.",
  },
  "addon-account": {
    area: "platform",
    title: "The account that an add-on works with cannot be made",
    evidence: "the add-on, and what the platform answered",
    cause:
      "The deployer's token may not make roles, users and tokens, or addons.ccm.proxmox.credentials is given and the Secret is not there.",
    fix: "Give the token what it lacks for the first apply (pveum role modify Deployer --append 1 --privs NAMES), or switch the add-on off. Or make the account with: pveum role add talos-NAME --privs PRIVILEGES; pveum user add talos-CLUSTER@pve; pveum user token add talos-CLUSTER@pve NAME; pveum acl modify /vms --users … --tokens … --roles talos-NAME; put its config.yaml into the Secret that the add-on reads, and set credentials: given.",
  },
} as const satisfies Record<string, FindingKind>;

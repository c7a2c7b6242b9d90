// What to do about refusals that the servers word as PVE does. The texts are the contract; a code is not always there.

const WAIT = "Wait for the running task and try again: gpvectl task list --running.";

/** `VM` stands for the VM that the command is about. */
const STEPS: readonly (readonly [RegExp, (...found: string[]) => string])[] = [
  [/^VM (\d+) (?:is )?not running\b/, (vmid) => `Start it: gpvectl vm start ${vmid}.`],
  [
    /^VM (\d+) is running - destroy failed/,
    (vmid) => `Stop it first: gpvectl vm shutdown ${vmid}, or gpvectl vm stop ${vmid}.`,
  ],
  [
    /^can't remove VM (\d+) - protection mode enabled/,
    (vmid) => `Allow it: gpvectl vm set ${vmid} protection=0.`,
  ],
  [
    /^No QEMU guest agent configured/,
    () => "Switch it on with gpvectl vm set VM agent=1, and stop and start it.",
  ],
  [
    /^QEMU guest agent is not running/,
    () => "Is qemu-guest-agent installed and started in the guest? A guest that boots needs a while.",
  ],
  [/^VM is locked \((?:backup|snapshot|snapshot-delete|rollback|clone|create|disk|migrate)\)/, () => WAIT],
  [
    /^node '([^']+)' still has /,
    (node) => `Empty it first: gpvectl node drain ${node}; or see gpvectl node remove --help for --force.`,
  ],
  [/^can't lock file /, () => WAIT],
  [
    /^bridge '([^']+)' does not exist/,
    () => "Name one that is there (gpvectl vm set VM net0=virtio,bridge=NAME), or make it on the node.",
  ],
  [/^image '([^']+)' cannot be built, only pulled/, (image) => `Pull it: gpvectl image pull ${image}.`],
  [/^image '([^']+)' cannot be pulled, only built/, (image) => `Build it: gpvectl image build ${image}.`],
  [
    /^there is no image '[^']+' in the catalogue/,
    () => "See what can be pulled and built: gpvectl image list.",
  ],
  [
    /^(?:cannot fetch '|invalid server response: ')/,
    () => "Check the address, and that the node can reach it.",
  ],
  [/^hostname lookup '[^']+' failed/, () => "See what there is: gpvectl node list."],
  [
    /^virtual cluster (\S+) has no kubeconfig '/,
    (name) => `See which are good: gpvectl vc kubeconfigs ${name}.`,
  ],
  [
    /^no pod '[^']+' in namespace '[^']+' runs on a worker of/,
    () => "See what runs on a node: gpvectl node pods NODE; pods of other namespaces: --namespace.",
  ],
  [/^storage: No such storage/, () => "See what there is: gpvectl storage list."],
  [
    /volume '([^':]+):(iso|import|backup|snippets|vztmpl)\/[^']*' does not exist/,
    (storage, content) =>
      `See what is there: gpvectl storage content ${storage} --content ${content}. Bring it there: gpvectl storage upload ${storage} FILE, or gpvectl storage download ${storage} URL.`,
  ],
  [/^disk '[^']+' does not exist/, () => "See what it has: gpvectl vm config VM."],
  [
    /^unable to parse volume ID/,
    () => "Name it as the storage does: gpvectl storage content local --content backup.",
  ],
  [
    /invalid configuration ID '/,
    () => "A name begins with a letter and has letters, digits, - and _, two or more.",
  ],
  [
    /^snapshot feature is not available/,
    () => "Every disk must be qcow2 on a storage of files: see them with gpvectl vm config VM.",
  ],
];

/**
 * For the first of the texts that has one; undefined: nothing better to say than by the kind of failure. `vm` is the
 * VM in question, where there is one.
 */
export function stepFor(texts: readonly string[], vm = "VM"): string | undefined {
  for (const text of texts) {
    for (const [pattern, step] of STEPS) {
      const found = pattern.exec(text);
      if (found !== null) return step(...found.slice(1)).replaceAll(/\bVM\b/g, () => vm);
    }
  }
  return undefined;
}

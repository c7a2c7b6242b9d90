// What to do about refusals that the servers word as PVE does. The texts are the contract; a code is not always there.

const WAIT = "Wait for the running task and try again: gpvectl task list --running.";

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
    () => "Switch it on with gpvectl vm set VM agent=1, and stop and start the VM.",
  ],
  [
    /^QEMU guest agent is not running/,
    () => "Is qemu-guest-agent installed and started in the guest? A guest that boots needs a while.",
  ],
  [/^VM is locked \((?:backup|snapshot|snapshot-delete|rollback|clone|create|disk|migrate)\)/, () => WAIT],
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
  [
    /^snapshot feature is not available/,
    () => "Every disk must be qcow2 on a storage of files: see them with gpvectl vm config VM.",
  ],
];

/** undefined: nothing better to say than by the kind of failure. */
export function stepFor(message: string): string | undefined {
  for (const [pattern, step] of STEPS) {
    const found = pattern.exec(message);
    if (found !== null) return step(...found.slice(1));
  }
  return undefined;
}

// The smallest guests: 512 bytes that a PC firmware boots. They need 16 MB and no time.

const HALT = [0xf4, 0xeb, 0xfd]; // hlt; jmp back

const programs = {
  /** Sleeps for ever. */
  halt: HALT,
  /** ACPI power off on an i440fx: out 0x604, 0x2000. */
  powerOff: [0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef, ...HALT],
  /** Never sleeps. */
  spin: [0xeb, 0xfe],
  /** Writes '!' to the first serial port, then sleeps. */
  serial: [0xba, 0xf8, 0x03, 0xb0, 0x21, 0xee, ...HALT],
} as const satisfies Record<string, readonly number[]>;

export type BootProgram = keyof typeof programs;

/** A raw disk image, padded to 1 MiB so that it can be grown and mirrored. */
export function bootSector(program: BootProgram, sizeBytes = 1024 * 1024): Uint8Array {
  const image = new Uint8Array(sizeBytes);
  image.set(programs[program]);
  image.set([0x55, 0xaa], 510);
  return image;
}

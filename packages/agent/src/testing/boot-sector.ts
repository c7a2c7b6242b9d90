// The smallest guests: 512 bytes that a PC firmware boots. They need 16 MB and no time.

const HALT = [0xf4, 0xeb, 0xfd]; // hlt; jmp back

const WRITE_MARK = [0xba, 0xf8, 0x03, 0xb0, 0x21, 0xee]; // out 3f8, '!'
// out cf8, the address of a register of 00:04.0; mov dx, cfc
const PCI_60 = [0x66, 0xb8, 0x60, 0x20, 0x00, 0x80, 0xba, 0xf8, 0x0c, 0x66, 0xef, 0xba, 0xfc, 0x0c];
const PCI_68 = [0x66, 0xb8, 0x68, 0x20, 0x00, 0x80, 0xba, 0xf8, 0x0c, 0x66, 0xef, 0xba, 0xfc, 0x0c];
const FAST = [0xb8, 0x07, 0x00, 0xef];
const ON = [0xb0, 0x02, 0xee];

const programs = {
  /** Sleeps for ever. */
  halt: HALT,
  /** Sleeps with interrupts off: not even its clock wakes it, so that hundreds cost their host next to nothing. */
  deepSleep: [0xfa, ...HALT],
  /** ACPI power off on an i440fx: out 0x604, 0x2000. */
  powerOff: [0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef, ...HALT],
  /** Never sleeps. */
  spin: [0xeb, 0xfe],
  /** Sends back whatever comes in on the first serial port. */
  serialEcho: [0xba, 0xfd, 0x03, 0xec, 0xa8, 0x01, 0x74, 0xfb, 0xba, 0xf8, 0x03, 0xec, 0xee, 0xeb, 0xf1],
  /** Writes '!' to the first serial port, then sleeps. */
  serial: [...WRITE_MARK, ...HALT],
  /**
   * Writes '!' to the first serial port, then sets the i6300esb watchdog at 00:04.0 going, at 1 MHz so that it barks
   * after two seconds, and never feeds it. Its configuration space is enough for that.
   */
  watchdog: [...WRITE_MARK, ...PCI_60, ...FAST, ...PCI_68, ...ON, ...HALT],
} as const satisfies Record<string, readonly number[]>;

export type BootProgram = keyof typeof programs;

/** A raw disk image, padded to 1 MiB so that it can be grown and mirrored. */
export function bootSector(program: BootProgram, sizeBytes = 1024 * 1024): Uint8Array {
  const image = new Uint8Array(sizeBytes);
  image.set(programs[program]);
  image.set([0x55, 0xaa], 510);
  return image;
}

/**
 * Counts the ticks of its clock (18 a second) and writes the lowest byte of the count to the first serial port: that
 * a guest went back in time, or started anew, shows.
 */
export function counterSector(): Uint8Array {
  const image = new Uint8Array(1024 * 1024);
  // sti; xor bx,bx; mov dx,3f8; again: hlt; inc bx; mov al,bl; out dx,al; jmp again
  image.set([0xfb, 0x31, 0xdb, 0xba, 0xf8, 0x03, 0xf4, 0x43, 0x88, 0xd8, 0xee, 0xeb, 0xf9]);
  image.set([0x55, 0xaa], 510);
  return image;
}

/**
 * The smallest thing that QEMU takes for a Linux kernel (boot protocol 2.0): its real-mode part writes '!' to the
 * first serial port and sleeps. What QEMU boots without firmware's help, boots this.
 */
export function kernelImage(): Uint8Array {
  const image = new Uint8Array(4 * 512);
  image[0x1f1] = 1; // sectors of the real-mode part, after the first
  image.set([0x55, 0xaa], 0x1fe);
  image.set([0xeb, 0x62], 0x200); // jump over the header, to 0x264
  image.set([...new TextEncoder().encode("HdrS"), 0x02, 0x02], 0x202); // protocol 2.2
  image[0x211] = 1; // the protected-mode part is loaded high
  image.set([...WRITE_MARK, ...HALT], 0x264);
  return image;
}

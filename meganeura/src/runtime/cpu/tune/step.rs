//! A loaded step as the search sees it: a subject for every different contraction, with all the
//! kernels that are such a one.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use super::super::contract::ContractProgram;
use super::super::depth::Common;
use super::super::executor::Ready;
use super::super::gemm::Matter;
use super::super::memory::Region;
use super::super::pool::Pool;
use super::super::vector::InstructionSet;
use super::search::Stage;
use super::{Choice, key};
use crate::runtime::RunError;
use crate::schedule::kernel::{Action, BufferId, ContractKernel, Kernel};

/// A matrix that is gathered to be tried has at most so many floats.
const GATHERED: usize = 16 << 20;

/// What a plan was loaded from, for its kernels to be made again otherwise.
pub(in crate::runtime::cpu) struct Origin {
    pub kernels: Vec<Kernel>,
    pub regions: Vec<Region>,
    /// Buffers that a run writes.
    pub written: HashSet<BufferId>,
    /// Room for the parts of a product.
    pub parts: Region,
}

impl Origin {
    /// The contractions of a plan by what choices depend on.
    fn contractions(&self) -> BTreeMap<String, Vec<(usize, &ContractKernel)>> {
        let mut found: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (index, kernel) in self.kernels.iter().enumerate() {
            if let Action::Contract(kernel) = &kernel.action {
                found.entry(key(kernel)).or_default().push((index, kernel));
            }
        }
        found
    }
}

/// One kernel of the plan, with its programs for all ways to gather operands. That in use stands
/// among the kernels, the rest here.
struct Place {
    kernel: usize,
    others: Vec<ContractProgram>,
}

/// All kernels that are alike.
pub(in crate::runtime::cpu) struct Alike {
    pub key: String,
    places: Vec<Place>,
}

impl Alike {
    /// Where they stand in the plan.
    pub fn kernels(&self) -> Vec<usize> {
        self.places.iter().map(|place| place.kernel).collect()
    }
}

/// A step that is being tuned.
pub(in crate::runtime::cpu) struct Step<'a> {
    pool: &'a Pool,
    kernels: &'a mut [(String, Ready)],
    pub subjects: Vec<Alike>,
}

impl<'a> Step<'a> {
    /// # Safety
    /// All memory of the program is there, and nobody else uses it while the step is.
    pub unsafe fn new(
        pool: &'a Pool,
        set: InstructionSet,
        origin: &Origin,
        kernels: &'a mut [(String, Ready)],
    ) -> Step<'a> {
        let rewritten = |buffer: BufferId| origin.written.contains(&buffer);
        let common = Common {
            rewritten: &rewritten,
            parts: origin.parts,
        };
        let mut subjects = Vec::new();
        for (key, alike) in origin.contractions() {
            let mut places = Vec::new();
            for (index, kernel) in alike {
                let Ready::Contract(used) = &kernels[index].1 else {
                    continue;
                };
                let others = used.other_gatherings().into_iter().filter_map(|gathered| {
                    let floats = (kernel.rows() + kernel.columns()).saturating_mul(kernel.depth());
                    if floats > GATHERED {
                        return None;
                    }
                    let mut choice = used.choice();
                    choice.gathered = gathered;
                    let workers = pool.threads();
                    let choice = Some(choice);
                    let regions = &origin.regions;
                    let made = ContractProgram::new(kernel, regions, set, workers, &common, choice);
                    let as_wanted = |made: &ContractProgram| made.choice().gathered == gathered;
                    made.ok().filter(as_wanted)
                });
                places.push(Place {
                    kernel: index,
                    others: others.collect(),
                });
            }
            subjects.push(Alike { key, places });
        }
        Step {
            pool,
            kernels,
            subjects,
        }
    }

    /// All programs that are not in use.
    pub fn idle(&mut self) -> impl Iterator<Item = &mut ContractProgram> {
        let places = self.subjects.iter_mut().flat_map(|alike| &mut alike.places);
        places.flat_map(|place| &mut place.others)
    }

    /// All kernels in use.
    pub fn kernels(&mut self) -> impl Iterator<Item = &mut Ready> {
        self.kernels.iter_mut().map(|(_, kernel)| kernel)
    }

    /// The program in use at a place.
    fn used(&self, place: &Place) -> &ContractProgram {
        match &self.kernels[place.kernel].1 {
            Ready::Contract(program) => program,
            _ => unreachable!("subjects are contractions"),
        }
    }
}

impl Stage for Step<'_> {
    type Choice = Choice;
    type Error = RunError;

    fn subjects(&self) -> usize {
        self.subjects.len()
    }

    fn choice(&self, subject: usize) -> Choice {
        self.used(&self.subjects[subject].places[0]).choice()
    }

    fn matters(&self) -> usize {
        Matter::ALL.len()
    }

    fn others(&mut self, subject: usize, matter: usize) -> Vec<Choice> {
        let place = &self.subjects[subject].places[0];
        let used = self.used(place);
        let mut found = Vec::new();
        let mut add = |program: &ContractProgram| {
            let Choice { gathered, .. } = program.choice();
            // SAFETY: who made the step has promised that the buffers are there.
            let others = unsafe { program.others(Matter::ALL[matter]) };
            found.extend(
                others
                    .into_iter()
                    .map(|product| Choice { gathered, product }),
            );
        };
        add(used);
        if Matter::ALL[matter] == Matter::Way {
            for program in &place.others {
                add(program);
            }
        }
        found
    }

    fn set(&mut self, subject: usize, choice: Choice) {
        for place in &mut self.subjects[subject].places {
            let Ready::Contract(used) = &mut self.kernels[place.kernel].1 else {
                unreachable!("subjects are contractions");
            };
            if used.choice().gathered != choice.gathered {
                let mut others = place.others.iter_mut();
                let other = others.find(|other| other.choice().gathered == choice.gathered);
                match other {
                    Some(other) => std::mem::swap(&mut **used, other),
                    None => continue,
                }
            }
            used.choose(choice.product);
        }
    }

    fn run(&mut self) -> Result<(Vec<Duration>, Duration), RunError> {
        let mut times = Vec::with_capacity(self.kernels.len());
        let begin = Instant::now();
        let mut last = begin;
        for (name, kernel) in self.kernels.iter() {
            // SAFETY: who made the step has promised that all memory is there and ours.
            unsafe { kernel.run(self.pool) }.map_err(|message| RunError::Kernel {
                kernel: name.clone(),
                message,
            })?;
            let now = Instant::now();
            times.push(now - last);
            last = now;
        }
        let of = |alike: &Alike| alike.places.iter().map(|place| times[place.kernel]).sum();
        Ok((self.subjects.iter().map(of).collect(), last - begin))
    }
}

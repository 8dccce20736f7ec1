//! The search: candidates are timed where they stand in a step, in turn, and one only takes
//! another's place when it has beaten it again and again.
//!
//! Every run of the step times one candidate of every subject at once. Rounds in turn, and pairs
//! whose ratio counts, keep a machine that is slower for a while from deciding anything.

use std::time::Duration;

/// Rounds in which all candidates run once.
const ROUNDS: usize = 3;
/// What is slower than the fastest by this factor after the first round is out.
const HOPELESS: f64 = 1.2;
/// How often a challenger and what it wants to replace run in turn.
const PAIRS: usize = 7;
/// A challenger must take less than this share of the time.
const WORTH_IT: f64 = 0.98;
/// The share of the budget that is left for comparing whole steps.
const LAST: f64 = 0.15;
/// Steps shorter than this are repeated, up to so many times; the fastest counts.
const SHORT: Duration = Duration::from_millis(4);
const REPEATS: u32 = 16;

/// What can be tried.
pub(in crate::runtime::cpu) trait Stage {
    /// A way to do something.
    type Choice: Copy + PartialEq;
    /// What goes wrong.
    type Error;

    /// How many there are to choose for.
    fn subjects(&self) -> usize;
    /// What is in use.
    fn choice(&self, subject: usize) -> Self::Choice;
    /// How often there is something to choose, one after the other.
    fn matters(&self) -> usize;
    /// What could be used instead, in one matter.
    fn others(&mut self, subject: usize, matter: usize) -> Vec<Self::Choice>;
    /// Uses something.
    fn set(&mut self, subject: usize, choice: Self::Choice);
    /// Runs the step: how long it took for each subject, and in all.
    fn run(&mut self) -> Result<(Vec<Duration>, Duration), Self::Error>;
}

/// Time that goes by.
pub(in crate::runtime::cpu) trait Clock {
    /// Since the search began.
    fn elapsed(&self) -> Duration;
}

impl Clock for std::time::Instant {
    fn elapsed(&self) -> Duration {
        std::time::Instant::elapsed(self)
    }
}

/// A subject that does better with another choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::runtime::cpu) struct Subject<C> {
    pub index: usize,
    pub from: C,
    pub to: C,
    /// The share of the time that it takes now.
    pub ratio: f64,
}

/// What a search has found.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::runtime::cpu) struct Outcome<C> {
    pub found: Vec<Subject<C>>,
    /// How often the step ran.
    pub runs: usize,
    /// Choices that were tried, beside those in use.
    pub tried: usize,
    /// The share of the time that a whole step takes now.
    pub step: f64,
}

/// Candidates for a subject, the one in use first.
struct Contest<C> {
    subject: usize,
    candidates: Vec<(C, Vec<f64>)>,
}

impl<C: Copy> Contest<C> {
    /// The candidate that does best so far, if it is another than the one in use.
    fn challenger(&self) -> Option<C> {
        let times = self.candidates.iter().map(|(_, times)| median(times));
        let (best, _) = times.enumerate().min_by(|a, b| a.1.total_cmp(&b.1))?;
        (best > 0).then(|| self.candidates[best].0)
    }

    /// Does without candidates that have no hope.
    fn thin_out(&mut self) {
        let least = |times: &[f64]| times.iter().copied().fold(f64::INFINITY, f64::min);
        let fastest = self.candidates.iter().map(|(_, times)| least(times));
        let fastest = fastest.fold(f64::INFINITY, f64::min);
        let mut index = 0;
        self.candidates.retain(|(_, times)| {
            index += 1;
            index == 1 || least(times) <= HOPELESS * fastest
        });
    }
}

fn median(numbers: &[f64]) -> f64 {
    let mut numbers = numbers.to_vec();
    numbers.sort_by(f64::total_cmp);
    numbers
        .get(numbers.len() / 2)
        .copied()
        .unwrap_or(f64::INFINITY)
}

/// Searches for better choices within a budget of time and leaves the best in use.
pub(in crate::runtime::cpu) fn search<S: Stage>(
    stage: &mut S,
    budget: Duration,
    clock: &impl Clock,
) -> Result<Outcome<S::Choice>, S::Error> {
    let mut search = Search {
        before: (0..stage.subjects())
            .map(|index| stage.choice(index))
            .collect(),
        ratios: vec![1.0; stage.subjects()],
        step: 1.0,
        stage,
        budget,
        clock,
        longest: Duration::ZERO,
        repeats: 1,
        runs: 0,
        tried: 0,
    };
    if search.warm_up()? {
        for matter in 0..search.stage.matters() {
            let Some(contests) = search.preliminaries(matter)? else {
                break;
            };
            let winners = search.finals(&contests)?;
            search.settle(&winners)?;
        }
    }
    Ok(Outcome {
        found: search.found(),
        runs: search.runs,
        tried: search.tried,
        step: search.step,
    })
}

/// Those of all subjects in one matter.
type Contests<S> = Vec<Contest<<S as Stage>::Choice>>;

/// The time of each subject, and of the whole step.
type Measured = (Vec<f64>, Duration);

/// A search on its way.
struct Search<'a, S: Stage, K: Clock> {
    stage: &'a mut S,
    /// What was in use before.
    before: Vec<S::Choice>,
    /// The share of the time that each subject takes since.
    ratios: Vec<f64>,
    /// The same of the whole step.
    step: f64,
    budget: Duration,
    clock: &'a K,
    /// The longest that a measurement has taken.
    longest: Duration,
    repeats: u32,
    runs: usize,
    tried: usize,
}

impl<S: Stage, K: Clock> Search<'_, S, K> {
    /// Runs once, so that buffers hold what they hold in training; whether there is time at all.
    fn warm_up(&mut self) -> Result<bool, S::Error> {
        if self.budget.is_zero() || self.stage.subjects() == 0 {
            return Ok(false);
        }
        self.measure()?;
        let (_, step) = self.measure()?;
        let repeats = SHORT.as_nanos() / step.as_nanos().max(1);
        self.repeats = (repeats as u32).clamp(1, REPEATS);
        self.longest = step * self.repeats;
        Ok(true)
    }

    /// Whether there is time for another measurement before a share of the budget is spent.
    fn has_time(&self, share: f64) -> bool {
        self.clock.elapsed() + self.longest <= self.budget.mul_f64(share)
    }

    /// Runs the step a few times: the least for each subject, and in all.
    fn measure(&mut self) -> Result<Measured, S::Error> {
        let begin = self.clock.elapsed();
        let mut least = (vec![f64::INFINITY; self.stage.subjects()], Duration::MAX);
        for _ in 0..self.repeats {
            let (times, all) = self.stage.run()?;
            self.runs += 1;
            for (least, time) in least.0.iter_mut().zip(times) {
                *least = least.min(time.as_secs_f64());
            }
            least.1 = least.1.min(all);
        }
        self.longest = self.longest.max(self.clock.elapsed() - begin);
        Ok(least)
    }

    /// Rounds of all candidates in one matter; nothing if there is no time for one round.
    fn preliminaries(&mut self, matter: usize) -> Result<Option<Contests<S>>, S::Error> {
        let mut contests = Vec::new();
        for subject in 0..self.stage.subjects() {
            let others = self.stage.others(subject, matter);
            if others.is_empty() {
                continue;
            }
            let candidates = [vec![self.stage.choice(subject)], others].concat();
            let candidates = candidates.into_iter().map(|choice| (choice, Vec::new()));
            contests.push(Contest {
                subject,
                candidates: candidates.collect(),
            });
        }
        let used: Vec<S::Choice> = contests
            .iter()
            .map(|contest| contest.candidates[0].0)
            .collect();
        let mut whole = true;
        for round in 0..ROUNDS {
            whole = self.round(&mut contests)?;
            if !whole {
                whole = round > 0;
                break;
            }
            contests.iter_mut().for_each(Contest::thin_out);
        }
        for (contest, used) in contests.iter().zip(used) {
            self.stage.set(contest.subject, used);
        }
        Ok(whole.then_some(contests))
    }

    /// Every candidate once; whether there was time for all.
    fn round(&mut self, contests: &mut [Contest<S::Choice>]) -> Result<bool, S::Error> {
        let slots = contests
            .iter()
            .map(|contest| contest.candidates.len())
            .max();
        for slot in 0..slots.unwrap_or(0) {
            if !self.has_time(1.0 - LAST) {
                return Ok(false);
            }
            // Not all of the same kind at once.
            let turn =
                |contest: &Contest<S::Choice>| (slot + contest.subject) % contest.candidates.len();
            for contest in contests.iter() {
                let (choice, _) = contest.candidates[turn(contest)];
                self.stage.set(contest.subject, choice);
            }
            let (times, _) = self.measure()?;
            for contest in contests.iter_mut() {
                let turn = turn(contest);
                let candidate = &mut contest.candidates[turn].1;
                self.tried += usize::from(turn > 0 && candidate.is_empty());
                candidate.push(times[contest.subject]);
            }
        }
        Ok(true)
    }

    /// The best of each contest against what is in use, in turn; those that win.
    fn finals(
        &mut self,
        contests: &[Contest<S::Choice>],
    ) -> Result<Vec<Subject<S::Choice>>, S::Error> {
        let challengers = contests.iter().filter_map(|contest| {
            Some(Subject {
                index: contest.subject,
                from: contest.candidates[0].0,
                to: contest.challenger()?,
                ratio: 1.0,
            })
        });
        let mut pairs: Vec<Subject<S::Choice>> = challengers.collect();
        let mut ratios = vec![Vec::new(); pairs.len()];
        for _ in 0..PAIRS {
            if pairs.is_empty() || !self.has_time(1.0 - LAST) {
                break;
            }
            let [used, other] = self.compare(&pairs)?;
            for (pair, ratios) in pairs.iter().zip(&mut ratios) {
                ratios.push(other.0[pair.index] / used.0[pair.index]);
            }
        }
        for (pair, ratios) in pairs.iter_mut().zip(&ratios) {
            if ratios.len() > PAIRS / 2 {
                pair.ratio = median(ratios);
            }
        }
        pairs.retain(|pair| pair.ratio < WORTH_IT);
        Ok(pairs)
    }

    /// Measures with what is in use for some subjects and with what could be, which is taken back.
    fn compare(&mut self, pairs: &[Subject<S::Choice>]) -> Result<[Measured; 2], S::Error> {
        let used = self.measure()?;
        pairs
            .iter()
            .for_each(|pair| self.stage.set(pair.index, pair.to));
        let other = self.measure()?;
        pairs
            .iter()
            .for_each(|pair| self.stage.set(pair.index, pair.from));
        Ok([used, other])
    }

    /// Takes winners over if that makes the whole step faster, for what is good for a kernel may be
    /// bad for those that read what it writes. If not, each half of them is looked at alone.
    fn settle(&mut self, winners: &[Subject<S::Choice>]) -> Result<(), S::Error> {
        if winners.is_empty() || !self.has_time(1.0) {
            return Ok(());
        }
        let mut ratios = Vec::new();
        for _ in 0..PAIRS {
            if !ratios.is_empty() && !self.has_time(1.0) {
                break;
            }
            let [used, other] = self.compare(winners)?.map(|(_, step)| step.as_secs_f64());
            ratios.push(other / used);
        }
        let ratio = median(&ratios);
        if ratio < 1.0 {
            self.step *= ratio;
            for winner in winners {
                self.stage.set(winner.index, winner.to);
                self.ratios[winner.index] *= winner.ratio;
            }
        } else if winners.len() > 1 {
            let (first, second) = winners.split_at(winners.len() / 2);
            self.settle(first)?;
            self.settle(second)?;
        }
        Ok(())
    }

    /// Subjects with another choice than before.
    fn found(&self) -> Vec<Subject<S::Choice>> {
        let all = self.before.iter().zip(&self.ratios).enumerate();
        let all = all.map(|(index, (&from, &ratio))| Subject {
            index,
            from,
            to: self.stage.choice(index),
            ratio,
        });
        all.filter(|subject| subject.from != subject.to).collect()
    }
}
